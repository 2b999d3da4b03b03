#include "exec/safetensors.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>

#include "base/json.h"
#include "support/faulty_disk.h"
#include "support/messages.h"
#include "support/temporary_directory.h"

using namespace ztplan;

namespace {

/// A file with this header and so many bytes of tensors: 0, 1, 2, ..
std::string file_of(const std::string& header, int bytes) {
  std::string file;
  for (int i = 0; i < 8; ++i) {
    file += static_cast<char>(header.size() >> (8 * i) & 0xff);
  }
  file += header;
  for (int i = 0; i < bytes; ++i) file += static_cast<char>(i);
  return file;
}

SafetensorsContent parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file)), "x");
}

const std::string kOne =
    R"({"a":{"dtype":"F16","shape":[2,3],"data_offsets":[0,12]}})";

}  // namespace

TEST_CASE("tensors are where the header says") {
  const std::string file = file_of(
      R"({"__metadata__":{"format":"pt"},)"
      R"("b":{"dtype":"F32","shape":[],"data_offsets":[12,16]},)"
      R"("a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},)"
      R"("none":{"dtype":"F16","shape":[0,7],"data_offsets":[12,12]},)"
      R"("mask":{"dtype":"BOOL","shape":[2],"data_offsets":[16,18]}}  )",
      18);
  const SafetensorsContent content = parse(file);
  CHECK(content.metadata.at("format") == "pt");
  REQUIRE(content.tensors.size() == 4);
  const TensorView& a = content.tensors.at("a");
  CHECK(a.dtype == Precision::bf16);
  CHECK(a.shape == std::vector<std::int64_t>{2, 3});
  CHECK(a.bytes.size() == 12);
  CHECK(a.bytes[0] == std::byte{0});
  const TensorView& b = content.tensors.at("b");
  CHECK(b.dtype == Precision::fp32);
  CHECK(b.shape.empty());
  CHECK(b.bytes[0] == std::byte{12});
  CHECK_FALSE(content.tensors.at("mask").dtype.has_value());
  CHECK(content.tensors.at("none").bytes.empty());
}

TEST_CASE("a file that is not whole is refused") {
  const auto two = [](const char* first, const char* second) {
    return std::string(R"({"a":{"dtype":"F16","shape":[2],"data_offsets":)") +
           first + R"(},"b":{"dtype":"F16","shape":[2],"data_offsets":)" +
           second + "}}";
  };
  struct Row {
    std::string file, why;
  };
  const Row rows[] = {
      {"", "x: it is shorter than 8 bytes"},
      {std::string(8, '\0'), "x: its header does not begin with {"},
      {file_of(kOne, 12).substr(0, 40),
       "x: a header of 57 bytes in a file of 40"},
      {std::string(8, '\xff') + "{}",
       "x: a header of 18446744073709551615 bytes in a file of 10"},
      {file_of(" {}", 0), "x: its header does not begin with {"},
      {file_of(kOne, 11), "x: tensor \"a\" ends at byte 12 of 11"},
      {file_of(kOne, 13), "x: 1 bytes follow the last tensor"},
      {file_of("{}", 1), "x: 1 bytes follow the last tensor"},
      {file_of(two("[0,4]", "[5,9]"), 9),
       "x: tensor \"b\" begins at byte 5, the one before it ends at 4"},
      {file_of(two("[0,4]", "[2,6]"), 6),
       "x: tensor \"b\" begins at byte 2, the one before it ends at 4"},
      {file_of(two("[0,4]", "[0,4]"), 4),
       "x: tensor \"b\" begins at byte 0, the one before it ends at 4"},
      {file_of(two("[1,5]", "[5,9]"), 9),
       "x: tensor \"a\" begins at byte 1, the one before it ends at 0"},
      {file_of(two("[0,5]", "[5,9]"), 9),
       "x: a: its shape needs 4 bytes, its offsets are 0 and 5"},
      {file_of(two("[4,0]", "[5,9]"), 9),
       "x: a: its shape needs 4 bytes, its offsets are 4 and 0"},
      {file_of(two("[-4,0]", "[5,9]"), 9),
       "x: a.data_offsets[0]: -4 is below 0"},
      {file_of(two("[0,4,8]", "[5,9]"), 9),
       "x: a.data_offsets: expected begin and end"},
      {file_of(R"({"a":{"dtype":"F31","shape":[],"data_offsets":[0,4]}})", 4),
       "x: a.dtype: unknown dtype \"F31\""},
      {file_of(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],)"
               R"("data_offsets":[0,0]}})",
               0),
       "x: a: a shape of more bytes than can be counted"},
      {file_of(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
               R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
               4),
       "x: duplicate key \"a\""},
      {file_of(R"({"a":{"dtype":"F32","shape":[]}})", 0),
       "x: a: key \"data_offsets\" is missing"},
      {file_of(R"({"__metadata__":{"a":1}})", 0),
       "x: __metadata__.a: expected a string, found 1"}};
  for (const Row& row : rows) {
    CHECK(refusal([&] { parse(row.file); }) == row.why);
  }
}

TEST_CASE("what is written is read, the widest first") {
  const TemporaryDirectory folder;
  const std::array<float, 2> wide{1.5F, -2};
  const std::array<std::uint16_t, 3> narrow{1, 2, 3};
  const std::string path = folder.file("a.safetensors");
  write_safetensors(
      path,
      {{"a", {Precision::bf16, {3}, std::as_bytes(std::span(narrow))}},
       {"b", {Precision::fp32, {1, 2}, std::as_bytes(std::span(wide))}}},
      {{"format", "pt"}});
  const std::string file = read_file(path, Bytes{kMiB});
  CHECK(static_cast<unsigned char>(file[0]) % 8 == 0);  // tensors are aligned
  CHECK(file.substr(8).starts_with(R"({"__metadata__":{"format":"pt"},"b":)"));
  const TensorFiles files = TensorFiles::open(path);
  REQUIRE(files.tensors().size() == 2);
  CHECK(files.find("a")->dtype == Precision::bf16);
  CHECK(std::memcmp(files.find("a")->bytes.data(), narrow.data(), 6) == 0);
  CHECK(files.find("b")->shape == std::vector<std::int64_t>{1, 2});
  CHECK(std::ranges::equal(files.find("b")->bytes,
                           std::as_bytes(std::span(wide))));
  CHECK(files.find("c") == nullptr);
}

TEST_CASE("a full disk leaves the old weights") {
  const TemporaryDirectory folder;
  const std::string path = folder.write("a.safetensors", "old");
  const std::array<float, 1> one{1};
  for (int nth = 0; nth < 5; ++nth) {  // three writes, a sync, a rename
    const FaultyDisk disk(nth, ENOSPC);
    CHECK(refusal([&] {
            write_safetensors(
                path,
                {{"a", {Precision::fp32, {}, std::as_bytes(std::span(one))}}},
                {});
          }) == "cannot write \"" + path + "\": No space left on device");
    CHECK(read_file(path, Bytes{kMiB}) == "old");
  }
}

TEST_CASE("a model of many files is one") {
  const TemporaryDirectory folder;
  folder.write("one.safetensors", file_of(kOne, 12));
  folder.write("two.safetensors", file_of(R"({"b":{"dtype":"F32","shape":[1],)"
                                          R"("data_offsets":[0,4]}})",
                                          4));
  const std::string index =
      folder.write("model.safetensors.index.json",
                   R"({"metadata":{"total_size":16},"weight_map":)"
                   R"({"a":"one.safetensors","b":"two.safetensors"}})");
  CHECK(TensorFiles::open(index).tensors().size() == 2);
  CHECK(TensorFiles::open(folder.path()).find("b")->bytes.size() == 4);
  struct Row {
    const char *map, *why;
  };
  const Row rows[] = {
      {R"({"c":"one.safetensors"})",
       "weight_map.c: \"one.safetensors\" does not hold it"},
      {R"({"a":"../one.safetensors"})",
       "weight_map.a: \"../one.safetensors\" is not the name of a file beside "
       "the index"}};
  for (const Row& row : rows) {
    folder.write("model.safetensors.index.json",
                 std::string(R"({"weight_map":)") + row.map + "}");
    CHECK(refusal([&] { TensorFiles::open(index); }) == index + ": " + row.why);
  }
}

TEST_CASE("a folder without weights is refused") {
  const TemporaryDirectory folder;
  CHECK(refusal([&] { TensorFiles::open(folder.path()); }) ==
        "\"" + folder.path() +
            "\" holds neither model.safetensors.index.json nor "
            "model.safetensors");
  folder.write("model.safetensors", file_of(kOne, 12));
  CHECK(TensorFiles::open(folder.path()).tensors().size() == 1);
}
