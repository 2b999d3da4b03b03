// Strict reading of JSON: a missing, unknown or mistyped key is an `Error` with
// file, path and what was expected. nlohmann/json stays behind this door.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace ztplan {

/// A file read whole, refused when it is a directory, a FIFO or larger than
/// `limit`. Throws `Error` that names the file and says what to do.
std::string read_file(const std::string& path, Bytes limit);

/// A JSON value and where it stands. Cheap to copy; keeps its document alive.
class JsonView {
 public:
  /// Parses `text`; `origin` names it in messages. Refuses nesting deeper
  /// than 64 levels, duplicate keys and anything after the value.
  static JsonView parse(std::string_view text, std::string origin);
  static JsonView load(const std::string& path);

  bool has(std::string_view key) const;  // present and not null
  JsonView at(std::string_view key) const;
  std::vector<std::string> keys() const;
  std::size_t size() const;
  JsonView operator[](std::size_t index) const;
  bool is_object() const;
  bool is_array() const;
  bool is_number() const;

  std::string string() const;
  std::int64_t integer() const;  // a whole number that fits
  int small_integer(int low, int high) const;
  double number() const;  // finite
  bool boolean() const;

  std::string string_or(std::string_view key, std::string fallback) const;
  std::int64_t integer_or(std::string_view key, std::int64_t fallback) const;
  bool boolean_or(std::string_view key, bool fallback) const;

  /// Every key must be one of these: a typo cannot become a default.
  void allow_only(std::initializer_list<std::string_view> keys) const;

  /// Throws `Error`: "<origin>: <path>: <message>".
  [[noreturn]] void fail(const std::string& message,
                         std::string hint = "") const;
  const std::string& path() const { return path_; }

 private:
  struct Document;
  std::shared_ptr<const Document> document_;
  const void* value_ = nullptr;
  std::string path_;
};

}  // namespace ztplan
