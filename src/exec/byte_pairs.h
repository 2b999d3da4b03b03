// A small tokenizer of one's own: byte-pair encoding learnt from a text
// (Sennrich, Haddow and Birch, arXiv:1508.07909, over bytes as in GPT-2). Not
// any published vocabulary: tokens of others come as shards (token_source.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ztplan {

/// Two tokens that become one.
struct BytePair {
  std::int32_t left = 0, right = 0;
  friend auto operator<=>(const BytePair&, const BytePair&) = default;
};

/// Tokens 0..255 are the bytes, token 256 + i is `merges[i]`, both of whose
/// tokens come before it. A text is cut before each white space; no token
/// crosses a cut.
class BytePairs {
 public:
  /// Learns up to `vocabulary` tokens: time and again the pair that is most
  /// frequent, of equals the one of smaller tokens; less when no pair is there
  /// twice. Requires vocabulary >= 256.
  static BytePairs train(std::string_view text, std::int64_t vocabulary);
  /// The form that `text()` writes. Throws `Error` with `origin` and the line.
  static BytePairs parse(std::string_view text, const std::string& origin);
  static BytePairs load(const std::string& path);

  std::int64_t vocabulary() const;
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// Throws `Error` for a token that is not of the vocabulary.
  std::string decode(std::span<const std::int32_t> tokens) const;

  /// "ztplan byte pairs 1", then a line "left right" for each merge.
  std::string text() const;
  /// Whole or not at all. Throws `Error`.
  void save(const std::string& path) const;

  bool operator==(const BytePairs&) const = default;

 private:
  std::vector<BytePair> merges_;
};

}  // namespace ztplan
