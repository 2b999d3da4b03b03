// Training text as one long row of tokens, mapped and never loaded whole: the
// bytes of any file, or shards of token ids. Which tokens make a sample is
// samples.h's.
//
// A shard, little endian:
//   bytes  0..7   "ztptoken"
//   bytes  8..11  uint32: version, 1
//   bytes 12..15  uint32: bytes of a token, 2 or 4
//   bytes 16..23  uint64: count of tokens
//   bytes 24..    the tokens
// Shards of llm.c are read too (dev/data/data_common.py, write_datafile): 256
// int32 of which the first are a magic number, a version and the count;
// 20240520 and 1 with tokens of 2 bytes, 20240801 and 7 with tokens of 4.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/mapped_file.h"

namespace ztplan {

class TokenSource {
 public:
  /// The files one after another: shards when the name ends in ".bin", bytes
  /// as tokens else. Throws `Error` when a file is missing, empty, not the
  /// shard it should be or not as long as it says.
  static TokenSource open(const std::vector<std::string>& paths,
                          std::int64_t vocabulary);

  /// Tokens in memory. Throws `Error` when there is none.
  static TokenSource of(std::vector<std::int32_t> tokens,
                        std::int64_t vocabulary);

  std::int64_t size() const { return size_; }  // tokens
  /// Tokens `first`, `first` + 1, .. Throws `Error` with the file and place of
  /// one that is not below the vocabulary. Requires that there are so many.
  void copy(std::int64_t first, std::span<std::int32_t> out) const;

 private:
  struct Piece {
    std::string path;
    std::shared_ptr<const void> owner;  // of the bytes
    std::span<const std::byte> tokens;
    std::int64_t width = 1;  // bytes of a token
    std::int64_t first = 0;  // of its tokens, in the row

    std::int64_t end() const;
    void copy(std::int64_t from, std::span<std::int32_t> out,
              std::int64_t vocabulary) const;
  };
  static Piece open_piece(const std::string& path);

  std::vector<Piece> pieces_;
  std::int64_t size_ = 0;
  std::int64_t vocabulary_ = 0;
};

/// Writes a shard, whole or not at all, in 2 bytes a token when all fit.
/// Requires tokens >= 0.
void write_token_shard(const std::string& path,
                       std::span<const std::int32_t> tokens);

}  // namespace ztplan
