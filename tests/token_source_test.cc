#include "exec/token_source.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "support/messages.h"
#include "support/temporary_directory.h"

using namespace ztplan;

namespace {

using Tokens = std::vector<std::int32_t>;

Tokens read_all(const TokenSource& source) {
  Tokens tokens(static_cast<std::size_t>(source.size()));
  source.copy(0, tokens);
  return tokens;
}

/// `numbers` as they lie in a file, `width` bytes each.
std::string bytes_of_numbers(const std::vector<std::uint64_t>& numbers,
                             int width) {
  std::string bytes;
  for (const std::uint64_t number : numbers) {
    for (int i = 0; i < width; ++i) {
      bytes += static_cast<char>(number >> (8 * i) & 0xff);
    }
  }
  return bytes;
}

/// As llm.c's write_datafile lays it out.
std::string llmc_shard(std::uint64_t magic, std::uint64_t version,
                       std::uint64_t count, const std::string& tokens) {
  std::vector<std::uint64_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return bytes_of_numbers(header, 4) + tokens;
}

std::string own_shard(std::uint64_t version, std::uint64_t width,
                      std::uint64_t count, const std::string& tokens) {
  return "ztptoken" + bytes_of_numbers({version, width}, 4) +
         bytes_of_numbers({count}, 8) + tokens;
}

}  // namespace

TEST_CASE("a text is its bytes") {
  const TemporaryDirectory folder;
  const auto source =
      TokenSource::open({folder.write("a.txt", "Az\n\xff")}, 256);
  CHECK(read_all(source) == Tokens{65, 122, 10, 255});
}

TEST_CASE("shards are read however they are laid out") {
  const TemporaryDirectory folder;
  const Tokens small{1, 50256, 65535}, large{1, 128000, 65536};
  const std::string narrow = bytes_of_numbers({1, 50256, 65535}, 2);
  const std::string wide = bytes_of_numbers({1, 128000, 65536}, 4);
  struct Row {
    std::string shard;
    Tokens tokens;
  };
  const Row rows[] = {{own_shard(1, 2, 3, narrow), small},
                      {own_shard(1, 4, 3, wide), large},
                      {llmc_shard(20240520, 1, 3, narrow), small},
                      {llmc_shard(20240801, 7, 3, wide), large}};
  for (const Row& row : rows) {
    const std::string path = folder.write("a.bin", row.shard);
    CHECK(read_all(TokenSource::open({path}, 200'000)) == row.tokens);
  }
}

TEST_CASE("a shard is written as the header says") {
  const TemporaryDirectory folder;
  const std::string path = folder.file("a.bin");
  write_token_shard(path, Tokens{7, 65535});
  CHECK(read_file(path, Bytes{100}) ==
        own_shard(1, 2, 2, bytes_of_numbers({7, 65535}, 2)));
  write_token_shard(path, Tokens{7, 65536});
  CHECK(read_file(path, Bytes{100}) ==
        own_shard(1, 4, 2, bytes_of_numbers({7, 65536}, 4)));
}

TEST_CASE("files follow one another") {
  const TemporaryDirectory folder;
  write_token_shard(folder.file("b.bin"), Tokens{300, 301});
  const auto source = TokenSource::open(
      {folder.write("a", "ab"), folder.file("b.bin"), folder.write("c", "cde")},
      1000);
  const Tokens whole{97, 98, 300, 301, 99, 100, 101};
  CHECK(read_all(source) == whole);
  for (std::size_t first = 0; first <= whole.size(); ++first) {
    for (std::size_t last = first; last <= whole.size(); ++last) {
      Tokens part(last - first);
      source.copy(static_cast<std::int64_t>(first), part);
      CHECK(part == Tokens(whole.begin() + static_cast<std::ptrdiff_t>(first),
                           whole.begin() + static_cast<std::ptrdiff_t>(last)));
    }
  }
}

TEST_CASE("what is not a row of tokens is refused") {
  const TemporaryDirectory folder;
  struct Row {
    std::string content, why;
  };
  const Row rows[] = {
      {"plain text", "it does not begin as a token shard does"},
      {own_shard(2, 2, 1, "ab"), "a shard of version 2 with 2-byte tokens"},
      {own_shard(1, 3, 1, "abc"), "a shard of version 1 with 3-byte tokens"},
      {own_shard(1, 2, 2, "abc"),
       "it should hold 2 tokens and holds 3 bytes of them"},
      {own_shard(1, 2, 2, "ab"),
       "it should hold 2 tokens and holds 2 bytes of them"},
      {own_shard(1, 2, 0, ""), "it holds no tokens"},
      {llmc_shard(20240520, 1, 9, "abcd"),
       "it should hold 9 tokens and holds 4 bytes of them"},
      {llmc_shard(20240520, 2, 2, "abcd"),
       "it does not begin as a token shard does"},
      {own_shard(1, 4, std::uint64_t{1} << 62, ""),
       "it should hold 4611686018427387904 tokens and holds 0 bytes of them"}};
  for (const Row& row : rows) {
    const std::string path = folder.write("a.bin", row.content);
    CHECK(refusal([&] { TokenSource::open({path}, 256); }) ==
          "cannot use \"" + path + "\": " + row.why);
  }
  CHECK(refusal([&] {
          TokenSource::open({folder.file("none")}, 256);
        }).ends_with("No such file or directory"));
  CHECK(refusal([&] {
          TokenSource::open({folder.write("e", "")}, 256);
        }).ends_with("it is empty"));
}

TEST_CASE("a token past the vocabulary is named where it stands") {
  const TemporaryDirectory folder;
  write_token_shard(folder.file("b.bin"), Tokens{1, 2, 50257});
  const auto source = TokenSource::open(
      {folder.write("a", "text"), folder.file("b.bin")}, 50257);
  Tokens two(2);
  source.copy(4, two);  // what is not read is not judged
  CHECK(refusal([&] { source.copy(5, two); }) ==
        "cannot use \"" + folder.file("b.bin") +
            "\": token 2 is 50257, the vocabulary ends at 50256");
}
