#include "exec/byte_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"
#include "base/quote.h"
#include "exec/whole_file.h"

namespace ztplan {
namespace {

constexpr std::int32_t kBytes = 256;
constexpr std::string_view kFirstLine = "ztplan byte pairs 1";
constexpr Bytes kLargestFile{16 * kMiB};  // a million merges

using Tokens = std::vector<std::int32_t>;

bool is_space(char letter) {
  return letter == ' ' || (letter >= '\t' && letter <= '\r');
}

/// Takes the next word off the front: at most one white space leads it.
std::string_view take_word(std::string_view& text) {
  std::size_t end = 1;
  while (end < text.size() && !is_space(text[end])) ++end;
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

Tokens bytes_of_word(std::string_view word) {
  Tokens tokens;
  tokens.reserve(word.size());
  for (const char letter : word) {
    tokens.push_back(static_cast<unsigned char>(letter));
  }
  return tokens;
}

/// Every `pair` in `tokens`, from the left, becomes `merged`.
void merge(Tokens& tokens, const BytePair& pair, std::int32_t merged) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < tokens.size(); ++kept) {
    const bool here = i + 1 < tokens.size() && tokens[i] == pair.left &&
                      tokens[i + 1] == pair.right;
    tokens[kept] = here ? merged : tokens[i];
    i += here ? 2 : 1;
  }
  tokens.resize(kept);
}

/// A word of the text and how often it is there.
struct Word {
  Tokens tokens;
  std::int64_t times = 0;
};

std::vector<Word> words_of(std::string_view text) {
  std::map<std::string_view, std::int64_t> times;
  while (!text.empty()) ++times[take_word(text)];
  std::vector<Word> words;
  words.reserve(times.size());
  for (const auto& [word, count] : times) {
    words.push_back({bytes_of_word(word), count});
  }
  return words;
}

/// How often each pair stands in the words, kept as words are merged.
class PairCounts {
 public:
  explicit PairCounts(std::vector<Word> words) : words_(std::move(words)) {
    for (std::size_t i = 0; i < words_.size(); ++i) count_word(i, 1);
  }

  /// The most frequent, of equals the smallest; nothing that is there once.
  const BytePair* most_frequent() const {
    if (order_.empty() || order_.begin()->first > -2) return nullptr;
    return &order_.begin()->second;
  }

  void merge_all(BytePair pair, std::int32_t merged) {
    const std::set<std::size_t> holders = std::move(pairs_[pair].words);
    for (const std::size_t word : holders) {
      count_word(word, -1);
      merge(words_[word].tokens, pair, merged);
      count_word(word, 1);
    }
  }

 private:
  struct Entry {
    std::int64_t times = 0;
    std::set<std::size_t> words;  // that hold it, or once did
  };

  void count_word(std::size_t index, std::int64_t sign) {
    const Word& word = words_[index];
    for (std::size_t i = 0; i + 1 < word.tokens.size(); ++i) {
      const BytePair pair{word.tokens[i], word.tokens[i + 1]};
      Entry& entry = pairs_[pair];
      order_.erase({-entry.times, pair});
      entry.times += sign * word.times;
      if (entry.times > 0) order_.insert({-entry.times, pair});
      if (sign > 0) entry.words.insert(index);
    }
  }

  std::vector<Word> words_;
  std::map<BytePair, Entry> pairs_;
  std::set<std::pair<std::int64_t, BytePair>> order_;  // by -times
};

/// Merges of a word one after another, the earliest learnt first.
class Encoder {
 public:
  explicit Encoder(const std::vector<BytePair>& merges) {
    std::int32_t token = kBytes;
    for (const BytePair& pair : merges) tokens_.emplace(pair, token++);
  }

  const Tokens& encode(std::string_view word) {
    const auto [known, is_new] = words_.try_emplace(word);
    if (is_new) {
      known->second = bytes_of_word(word);
      while (merge_earliest(known->second)) {
      }
    }
    return known->second;
  }

 private:
  bool merge_earliest(Tokens& tokens) const {
    auto earliest = tokens_.end();
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const auto found = tokens_.find({tokens[i], tokens[i + 1]});
      if (found == tokens_.end()) continue;
      if (earliest == tokens_.end() || found->second < earliest->second) {
        earliest = found;
      }
    }
    if (earliest == tokens_.end()) return false;
    merge(tokens, earliest->first, earliest->second);
    return true;
  }

  std::map<BytePair, std::int32_t> tokens_;
  std::unordered_map<std::string_view, Tokens> words_;
};

/// The two numbers of a line and nothing else.
bool read_pair(std::string_view line, BytePair& pair) {
  const char* end = line.data() + line.size();
  const auto left = std::from_chars(line.data(), end, pair.left);
  if (left.ec != std::errc() || left.ptr == end || *left.ptr != ' ') {
    return false;
  }
  const auto right = std::from_chars(left.ptr + 1, end, pair.right);
  return right.ec == std::errc() && right.ptr == end;
}

std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

}  // namespace

BytePairs BytePairs::train(std::string_view text, std::int64_t vocabulary) {
  require(vocabulary >= kBytes, "every byte is a token");
  PairCounts counts(words_of(text));
  BytePairs pairs;
  while (pairs.vocabulary() < vocabulary) {
    const BytePair* best = counts.most_frequent();
    if (best == nullptr) break;
    const auto token = static_cast<std::int32_t>(pairs.vocabulary());
    pairs.merges_.push_back(*best);
    counts.merge_all(pairs.merges_.back(), token);
  }
  return pairs;
}

BytePairs BytePairs::parse(std::string_view text, const std::string& origin) {
  if (take_line(text) != kFirstLine) {
    throw Error(fmt::format("{}: line 1: expected \"{}\"", origin, kFirstLine),
                "name a file of byte pairs that ztplan wrote");
  }
  BytePairs pairs;
  for (int line = 2; !text.empty(); ++line) {
    const std::string_view read = take_line(text);
    const std::int64_t next = pairs.vocabulary();
    BytePair pair;
    if (!read_pair(read, pair) || pair.left < 0 || pair.left >= next ||
        pair.right < 0 || pair.right >= next) {
      throw Error(
          fmt::format("{}: line {}: expected two tokens below {}, found {}",
                      origin, line, next, quote(read)));
    }
    pairs.merges_.push_back(pair);
  }
  return pairs;
}

BytePairs BytePairs::load(const std::string& path) {
  return parse(read_file(path, kLargestFile), path);
}

std::int64_t BytePairs::vocabulary() const {
  return kBytes + std::ssize(merges_);
}

std::vector<std::int32_t> BytePairs::encode(std::string_view text) const {
  Encoder encoder(merges_);
  Tokens tokens;
  while (!text.empty()) {
    const Tokens& word = encoder.encode(take_word(text));
    tokens.insert(tokens.end(), word.begin(), word.end());
  }
  return tokens;
}

std::string BytePairs::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  Tokens open;  // the next to be written is last
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= vocabulary()) {
      throw Error(
          fmt::format("token {} is not of the vocabulary, which ends "
                      "at {}",
                      token, vocabulary() - 1));
    }
    open.push_back(token);
    while (!open.empty()) {
      const std::int32_t last = open.back();
      open.pop_back();
      if (last < kBytes) {
        text += static_cast<char>(last);
        continue;
      }
      const BytePair& pair = merges_[static_cast<std::size_t>(last - kBytes)];
      open.push_back(pair.right);
      open.push_back(pair.left);
    }
  }
  return text;
}

std::string BytePairs::text() const {
  std::string text = std::string(kFirstLine) + "\n";
  for (const BytePair& pair : merges_) {
    text += fmt::format("{} {}\n", pair.left, pair.right);
  }
  return text;
}

void BytePairs::save(const std::string& path) const {
  WholeFile file(path);
  file.append(text());
  file.finish();
}

}  // namespace ztplan
