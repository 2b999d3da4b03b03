#include "exec/checkpoint.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "base/json.h"
#include "exec/checkpoint_store.h"
#include "support/faulty_disk.h"
#include "support/messages.h"
#include "support/temporary_directory.h"

using namespace ztplan;

namespace {

using Floats = std::vector<float>;

/// A matrix whose elements tell where they stand.
constexpr std::int64_t kRows = 4, kColumns = 6;

Floats elements_of(const TensorPart& part) {
  Floats elements;
  const Block& block = part.block;
  for (std::int64_t i = part.from; i < part.until; ++i) {
    const std::int64_t row = block.row + i / block.columns;
    const std::int64_t column = block.column + i % block.columns;
    elements.push_back(static_cast<float>(row * kColumns + column));
  }
  return elements;
}

RankFile save(const std::string& directory, int rank,
              const std::vector<TensorPart>& parts) {
  std::vector<Floats> elements;
  elements.reserve(parts.size());
  for (const TensorPart& part : parts) elements.push_back(elements_of(part));
  std::vector<TensorToSave> tensors;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    tensors.push_back({"w", Precision::fp32, kRows, kColumns, parts[i],
                       std::as_bytes(std::span(elements[i]))});
  }
  return write_rank_file(directory, rank, tensors);
}

/// A layout: what each rank holds.
using Cut = std::vector<std::vector<TensorPart>>;

void save_all(const CheckpointStore& store, std::int64_t step, const Cut& cut,
              int keep) {
  const std::string directory = store.begin(step);
  std::vector<RankFile> files;
  for (std::size_t rank = 0; rank < cut.size(); ++rank) {
    files.push_back(save(directory, static_cast<int>(rank), cut[rank]));
  }
  const RunState state{step, 1, 8 * step, 1, "dp=2", "tiny"};
  store.finish(join(state, files), keep);
}

Floats read(Checkpoint& checkpoint, const Block& block) {
  Floats out(static_cast<std::size_t>(block.size()));
  checkpoint.read("w", block, std::as_writable_bytes(std::span(out)));
  return out;
}

const Block kWhole{0, kRows, 0, kColumns};

const Cut& halves() {
  static const Cut cut{{all_of({0, kRows, 0, 3})}, {all_of({0, kRows, 3, 3})}};
  return cut;
}

bool is_good(const std::string& directory) {
  Checkpoint checkpoint = Checkpoint::open(directory);
  return read(checkpoint, kWhole) == elements_of(all_of(kWhole));
}

std::string newest(const std::string& path) {
  const auto steps = whole_checkpoints(path);
  return steps.empty() ? "" : checkpoint_directory(path, steps.back());
}

}  // namespace

TEST_CASE("any block is read from any layout") {
  const Block left{0, kRows, 0, 2}, right{0, kRows, 2, 4};
  const Cut cuts[] = {
      {{all_of(kWhole)}},
      halves(),
      {{all_of({0, 1, 0, kColumns})}, {all_of({1, 3, 0, kColumns})}},
      // ranges that no row ends, one of them empty
      {{{kWhole, 0, 7}},
       {{kWhole, 7, 7}},
       {{kWhole, 7, 16}},
       {{kWhole, 16, 24}}},
      // ranges of blocks
      {{{left, 0, 3}, {right, 0, 9}}, {{right, 9, 16}}, {{left, 3, 8}}}};
  for (const Cut& cut : cuts) {
    const TemporaryDirectory folder;
    const CheckpointStore store(folder.path());
    save_all(store, 1, cut, 1);
    Checkpoint checkpoint = Checkpoint::open(newest(folder.path()));
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t column = 0; column < kColumns; ++column) {
        for (std::int64_t rows = 1; row + rows <= kRows; ++rows) {
          const Block block{row, rows, column, kColumns - column};
          CHECK(read(checkpoint, block) == elements_of(all_of(block)));
          const Block thin{row, rows, column, 1};
          CHECK(read(checkpoint, thin) == elements_of(all_of(thin)));
        }
      }
    }
  }
}

TEST_CASE("a checkpoint remembers where the run stood") {
  const TemporaryDirectory folder;
  const CheckpointStore store(folder.path());
  const std::string directory = store.begin(7);
  const RunState state{7, 9, 56, 1024, "tp=2,dp=2", "gpt:tiny"};
  store.finish(join(state, {}), 1);
  CHECK(Checkpoint::open(directory).manifest().state == state);
}

TEST_CASE("elements saved twice or never are our fault") {
  const TemporaryDirectory folder;
  const RankFile left = save(folder.path(), 0, {all_of({0, kRows, 0, 3})});
  const RankFile more = save(folder.path(), 1, {all_of({0, kRows, 2, 4})});
  const RankFile less = save(folder.path(), 2, {all_of({0, kRows, 4, 2})});
  CHECK_THROWS_AS(join({}, std::vector{left, more}), Bug);
  CHECK_THROWS_AS(join({}, std::vector{left, less}), Bug);
}

TEST_CASE("the newest are kept") {
  const TemporaryDirectory folder;
  const CheckpointStore store(folder.path());
  for (const int step : {10, 20, 30, 40}) save_all(store, step, halves(), 2);
  CHECK(whole_checkpoints(folder.path()) == std::vector<std::int64_t>{30, 40});
  save_all(store, 35, halves(), 2);  // the run went back to 30
  CHECK(whole_checkpoints(folder.path()) == std::vector<std::int64_t>{30, 35});
  save_all(store, 35, {{all_of(kWhole)}}, 2);
  CHECK(is_good(newest(folder.path())));
  CHECK(whole_checkpoints(folder.file("none")).empty());
}

TEST_CASE("other directories are left alone") {
  const TemporaryDirectory folder;
  for (const char* name : {"step-5", "step-000005x", "notes"}) {
    std::filesystem::create_directory(folder.file(name));
  }
  const CheckpointStore store(folder.path());
  save_all(store, 10, halves(), 1);
  save_all(store, 20, halves(), 1);
  for (const char* name : {"step-5", "step-000005x", "notes"}) {
    CHECK(std::filesystem::exists(folder.file(name)));
  }
}

TEST_CASE("two runs do not keep checkpoints in one directory") {
  const TemporaryDirectory folder;
  {
    const CheckpointStore store(folder.path());
    CHECK(refusal([&] { CheckpointStore{folder.path()}; }) ==
          "another run keeps its checkpoints in \"" + folder.path() + "\"");
  }
  const CheckpointStore store(folder.path());  // the lock went with its owner
}

TEST_CASE("a damaged file is named") {
  const TemporaryDirectory folder;
  const CheckpointStore store(folder.path());
  struct Row {
    std::function<void(const std::string&)> damage;
    std::string why;
  };
  const Row rows[] = {
      {[](const std::string& path) { std::filesystem::remove(path); },
       "cannot read \"PATH\": No such file or directory"},
      {[](const std::string& path) { std::filesystem::resize_file(path, 47); },
       "\"PATH\" has 47 bytes and should have 48"},
      {[](const std::string& path) {
         std::string content = read_file(path, Bytes{kMiB});
         content[17] = static_cast<char>(content[17] ^ 4);
         std::ofstream(path, std::ios::binary) << content;
       },
       "\"PATH\": tensor \"w\" is not as it was written"}};
  for (const Row& row : rows) {
    save_all(store, 1, halves(), 1);
    const std::string directory = newest(folder.path());
    const std::string path = directory + "/rank-00001.bin";
    row.damage(path);
    std::string why = row.why;
    why.replace(why.find("PATH"), 4, path);
    CHECK(refusal([&] { is_good(directory); }) == why);
  }
}

TEST_CASE("what was not damaged is still read") {
  const TemporaryDirectory folder;
  const CheckpointStore store(folder.path());
  save_all(store, 1, halves(), 1);
  const std::string path = newest(folder.path()) + "/rank-00001.bin";
  std::ofstream(path, std::ios::binary) << std::string(48, 'x');
  Checkpoint checkpoint = Checkpoint::open(newest(folder.path()));
  const Block left{0, kRows, 0, 3};
  CHECK(read(checkpoint, left) == elements_of(all_of(left)));
  CHECK_FALSE(refusal([&] { read(checkpoint, kWhole); }).empty());
}

TEST_CASE("a tensor that is not there is named") {
  const TemporaryDirectory folder;
  const CheckpointStore store(folder.path());
  save_all(store, 1, halves(), 1);
  Checkpoint checkpoint = Checkpoint::open(newest(folder.path()));
  CHECK(refusal([&] { checkpoint.read("v", {}, {}); }) ==
        "\"" + newest(folder.path()) + "\" holds no tensor \"v\"");
}

TEST_CASE("a save killed anywhere leaves a whole checkpoint") {
  const TemporaryDirectory folder;
  { save_all(CheckpointStore(folder.path()), 1, halves(), 1); }
  int nth = 0;
  int step = 2;
  const auto save_next = [&] {
    save_all(CheckpointStore(folder.path()), step, halves(), 1);
  };
  while (dies_at(nth, save_next)) {
    CAPTURE(nth);
    const auto steps = whole_checkpoints(folder.path());
    REQUIRE_FALSE(steps.empty());
    for (const std::int64_t whole : steps) {
      CHECK(is_good(checkpoint_directory(folder.path(), whole)));
    }
    ++nth;
    ++step;
  }
  // A write, two syncs and a rename for each rank and the manifest; a sync for
  // what the last left behind, the new directory and the old one.
  CHECK(nth == 15);
  CHECK(whole_checkpoints(folder.path()) == std::vector<std::int64_t>{step});
  int entries = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator(folder.path())) {
    ++entries;
  }
  CHECK(entries == 2);  // the lock, and nothing unfinished
}

TEST_CASE("a save on a full disk leaves what was whole") {
  const TemporaryDirectory folder;
  const CheckpointStore store(folder.path());
  save_all(store, 1, halves(), 1);
  for (int nth = 0; nth < 12; ++nth) {  // until the manifest is in its place
    CAPTURE(nth);
    {
      const FaultyDisk disk(nth, ENOSPC);
      CHECK(refusal([&] {
              save_all(store, 2, halves(), 1);
            }).ends_with("No space left on device"));
    }
    CHECK(whole_checkpoints(folder.path()) == std::vector<std::int64_t>{1});
  }
  CHECK(is_good(newest(folder.path())));
  save_all(store, 2, halves(), 1);
  CHECK(whole_checkpoints(folder.path()) == std::vector<std::int64_t>{2});
}

TEST_CASE("a place that is no directory is refused") {
  const TemporaryDirectory folder;
  const std::string file = folder.write("a", "text");
  CHECK(refusal([&] {
          CheckpointStore{file};
        }).starts_with("cannot keep checkpoints in \"" + file + "\": "));
  CHECK_FALSE(refusal([&] { Checkpoint::open(folder.path()); }).empty());
}
