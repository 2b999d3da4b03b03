#include "exec/token_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/quote.h"
#include "exec/whole_file.h"

namespace ztplan {
namespace {

static_assert(std::endian::native == std::endian::little,
              "shards are read as they lie");

struct OwnHeader {
  std::array<char, 8> magic{'z', 't', 'p', 't', 'o', 'k', 'e', 'n'};
  std::uint32_t version = 1;
  std::uint32_t width = 0;
  std::uint64_t count = 0;
};
static_assert(sizeof(OwnHeader) == 24);

using LlmcHeader = std::array<std::int32_t, 256>;

/// What the first numbers of llm.c's header say of the tokens.
struct LlmcKind {
  std::int32_t magic, version;
  std::int64_t width;
};
constexpr LlmcKind kLlmcKinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};

struct ShardShape {
  std::size_t header = 0;  // bytes
  std::int64_t width = 0;
  std::uint64_t count = 0;
};

[[noreturn]] void refuse(const std::string& path, const std::string& why,
                         const std::string& hint) {
  throw Error(fmt::format("cannot use {}: {}", quote(path), why), hint);
}

template <class Header>
bool read_header(const MappedFile& file, Header& header) {
  if (file.bytes().size() < sizeof header) return false;
  std::memcpy(&header, file.bytes().data(), sizeof header);
  return true;
}

ShardShape shape_of(const MappedFile& file) {
  OwnHeader own;
  if (read_header(file, own) && own.magic == OwnHeader{}.magic) {
    if (own.version == 1 && (own.width == 2 || own.width == 4)) {
      return {sizeof own, own.width, own.count};
    }
    refuse(file.path(),
           fmt::format("a shard of version {} with {}-byte tokens", own.version,
                       own.width),
           "versions: 1; tokens: of 2 or 4 bytes");
  }
  LlmcHeader llmc{};
  if (read_header(file, llmc)) {
    for (const LlmcKind& kind : kLlmcKinds) {
      if (llmc[0] != kind.magic || llmc[1] != kind.version) continue;
      return {sizeof llmc, kind.width, static_cast<std::uint32_t>(llmc[2])};
    }
  }
  refuse(file.path(), "it does not begin as a token shard does",
         "to train on the bytes of a file, let its name not end in .bin");
}

std::span<const std::byte> tokens_of(const MappedFile& file,
                                     const ShardShape& shape) {
  const auto bytes = file.bytes().subspan(shape.header);
  const auto width = static_cast<std::size_t>(shape.width);
  if (bytes.size() % width != 0 || bytes.size() / width != shape.count) {
    refuse(file.path(),
           fmt::format("it should hold {} tokens and holds {} bytes of them",
                       shape.count, bytes.size()),
           "it was cut short or written over: make it again");
  }
  if (bytes.empty()) refuse(file.path(), "it holds no tokens", "");
  return bytes;
}

std::int64_t token_at(const std::byte* data, std::int64_t width) {
  std::uint32_t token = 0;  // little endian: the low bytes come first
  std::memcpy(&token, data, static_cast<std::size_t>(width));
  return token;
}

template <class Token>
void append_tokens(WholeFile& file, std::span<const std::int32_t> tokens) {
  std::vector<Token> narrow(tokens.size());
  std::ranges::transform(tokens, narrow.begin(), [](std::int32_t token) {
    return static_cast<Token>(token);
  });
  file.append(std::as_bytes(std::span(narrow)));
}

}  // namespace

TokenSource TokenSource::open(const std::vector<std::string>& paths,
                              std::int64_t vocabulary) {
  require(!paths.empty() && vocabulary > 0, "there are tokens to read");
  TokenSource source;
  source.vocabulary_ = vocabulary;
  for (const std::string& path : paths) {
    Piece piece = open_piece(path);
    piece.first = source.size_;
    source.size_ = piece.end();
    source.pieces_.push_back(std::move(piece));
  }
  return source;
}

TokenSource::Piece TokenSource::open_piece(const std::string& path) {
  const auto file = std::make_shared<const MappedFile>(path);
  Piece piece;
  piece.path = path;
  piece.owner = file;
  if (!path.ends_with(".bin")) {
    piece.tokens = file->bytes();
    return piece;
  }
  const ShardShape shape = shape_of(*file);
  piece.width = shape.width;
  piece.tokens = tokens_of(*file, shape);
  return piece;
}

TokenSource TokenSource::of(std::vector<std::int32_t> tokens,
                            std::int64_t vocabulary) {
  if (tokens.empty()) throw Error("there are no tokens to train on");
  const auto owner =
      std::make_shared<const std::vector<std::int32_t>>(std::move(tokens));
  Piece piece;
  piece.path = "the encoded text";
  piece.owner = owner;
  piece.tokens = std::as_bytes(std::span(*owner));
  piece.width = sizeof(std::int32_t);
  TokenSource source;
  source.vocabulary_ = vocabulary;
  source.size_ = piece.end();
  source.pieces_.push_back(std::move(piece));
  return source;
}

std::int64_t TokenSource::Piece::end() const {
  return first + static_cast<std::int64_t>(tokens.size()) / width;
}

void TokenSource::Piece::copy(std::int64_t from, std::span<std::int32_t> out,
                              std::int64_t vocabulary) const {
  for (std::int32_t& token : out) {
    const std::int64_t read =
        token_at(tokens.data() + (from - first) * width, width);
    if (read >= vocabulary) {
      refuse(path,
             fmt::format("token {} is {}, the vocabulary ends at {}",
                         from - first, read, vocabulary - 1),
             "take the model's own tokens, or a model with more");
    }
    token = static_cast<std::int32_t>(read);
    ++from;
  }
}

void TokenSource::copy(std::int64_t first, std::span<std::int32_t> out) const {
  require(first >= 0 && first + std::ssize(out) <= size_,
          "tokens lie within their source");
  auto piece = std::ranges::upper_bound(pieces_, first, {}, &Piece::end);
  for (; !out.empty(); ++piece) {
    const auto here = static_cast<std::size_t>(
        std::min<std::int64_t>(std::ssize(out), piece->end() - first));
    piece->copy(first, out.first(here), vocabulary_);
    out = out.subspan(here);
    first = piece->end();
  }
}

void write_token_shard(const std::string& path,
                       std::span<const std::int32_t> tokens) {
  constexpr std::int32_t kLargestNarrow =
      std::numeric_limits<std::uint16_t>::max();
  require(std::ranges::all_of(tokens, [](std::int32_t t) { return t >= 0; }),
          "tokens are not negative");
  const bool narrow = std::ranges::all_of(
      tokens, [](std::int32_t token) { return token <= kLargestNarrow; });
  const OwnHeader header{.width = narrow ? 2U : 4U, .count = tokens.size()};
  WholeFile file(path);
  file.append(std::as_bytes(std::span(&header, 1)));
  if (narrow) {
    append_tokens<std::uint16_t>(file, tokens);
  } else {
    append_tokens<std::uint32_t>(file, tokens);
  }
  file.finish();
}

}  // namespace ztplan
