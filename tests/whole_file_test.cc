// What is written appears whole or not at all; what is mapped is the file.
#include "exec/whole_file.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <filesystem>

#include "base/json.h"
#include "exec/mapped_file.h"
#include "support/faulty_disk.h"
#include "support/messages.h"
#include "support/temporary_directory.h"

using namespace ztplan;

namespace {

void write_text(const std::string& path, std::string_view text) {
  WholeFile file(path);
  file.append(text.substr(0, text.size() / 2));
  file.append(text.substr(text.size() / 2));
  file.finish();
}

std::string content(const std::string& path) {
  return read_file(path, Bytes{kMiB});
}

int files_in(const std::string& path) {
  int count = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator(path)) {
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("a whole file replaces what was there") {
  const TemporaryDirectory folder;
  const std::string path = folder.write("a", "old");
  write_text(path, "new and longer");
  CHECK(content(path) == "new and longer");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("a file that was not finished was never there") {
  const TemporaryDirectory folder;
  const std::string path = folder.write("a", "old");
  { WholeFile(path).append(std::string_view("new")); }
  CHECK(content(path) == "old");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("a disk that fails leaves the old file and says why") {
  const TemporaryDirectory folder;
  const std::string path = folder.write("a", "old");
  int calls = 0;
  {
    const FaultyDisk counting(-1, EIO);
    write_text(path, "old");
    calls = counting.calls();
  }
  CHECK(calls == 5);  // two writes, a sync, a rename, the directory's sync
  for (int nth = 0; nth + 1 < calls; ++nth) {
    CAPTURE(nth);
    const FaultyDisk disk(nth, ENOSPC);
    CHECK(refusal([&] {
            write_text(path, "new!");
          }).find("No space left on device") != std::string::npos);
    CHECK(content(path) == "old");
    CHECK(files_in(folder.path()) == 1);
  }
}

TEST_CASE("a process killed at any write leaves the old file or the new") {
  const TemporaryDirectory folder;
  const std::string path = folder.write("a", "old");
  int nth = 0;
  while (dies_at(nth, [&] { write_text(path, "new!"); })) {
    const bool renamed = nth == 4;  // before the sync of the directory
    CHECK(content(path) == (renamed ? "new!" : "old"));
    ++nth;
  }
  CHECK(nth == 5);
  write_text(path, "last");  // in spite of what was left behind
  CHECK(content(path) == "last");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("a place that cannot be written to is named") {
  const TemporaryDirectory folder;
  CHECK(refusal([&] { WholeFile(folder.file("none/a")); }) ==
        "cannot write \"" + folder.file("none/a") +
            "\": No such file or directory");
}

TEST_CASE("a mapped file is its bytes") {
  const TemporaryDirectory folder;
  const MappedFile file(folder.write("a", "tokens"));
  REQUIRE(file.bytes().size() == 6);
  CHECK(file.bytes()[2] == std::byte{'k'});
  for (const std::string& path :
       {folder.file("none"), folder.path(), folder.write("empty", "")}) {
    CAPTURE(path);
    CHECK(refusal([&] { MappedFile{path}; }).starts_with("cannot read"));
  }
}
