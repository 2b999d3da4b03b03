// JSON written in the order it is told: the form of every answer to a program.
// Reading is json.h's; which keys an answer has is report/'s.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"

namespace ztplan {

class JsonWriter {
 public:
  /// Two spaces a level, a final newline; or all on one line without one.
  enum class Layout { indented, one_line };
  explicit JsonWriter(Layout layout) : layout_(layout) {}

  JsonWriter& begin_object();
  JsonWriter& end_object();
  JsonWriter& begin_array();
  JsonWriter& end_array();
  /// Names the next value of an object.
  JsonWriter& key(std::string_view name);

  /// Bytes that are not UTF-8 become U+FFFD.
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) {
    return value(std::string_view(text));
  }
  /// The shortest digits that read back to the same double, always with a
  /// fraction or an exponent. Requires a finite number.
  JsonWriter& value(double number);
  JsonWriter& value(std::same_as<bool> auto truth) {
    return literal(truth ? "true" : "false");
  }
  template <std::integral T>
  requires(!std::same_as<T, bool>) JsonWriter& value(T whole) {
    if constexpr (std::signed_integral<T>) return integer(whole);
    return natural(static_cast<std::uint64_t>(whole));
  }
  JsonWriter& value(Bytes bytes) { return integer(bytes.value); }
  template <class Tag>
  JsonWriter& value(Quantity<Tag, double> quantity) {
    return value(quantity.value);
  }
  JsonWriter& null() { return literal("null"); }

  /// `key(name)` and `value(content)`.
  template <class T>
  JsonWriter& field(std::string_view name, const T& content) {
    return key(name).value(content);
  }

  /// The text, once. Requires that all that was begun has ended.
  std::string take();

 private:
  struct Open {
    char end;  // the bracket that closes it
    bool empty;
  };

  JsonWriter& integer(std::int64_t whole);
  JsonWriter& natural(std::uint64_t whole);
  JsonWriter& literal(std::string_view text);
  JsonWriter& begin(char bracket, char end);
  JsonWriter& end(char bracket);
  void start_value();
  void separate();
  void break_line();
  void append_string(std::string_view text);

  Layout layout_;
  std::string out_;
  std::vector<Open> open_;
  bool after_key_ = false;
};

}  // namespace ztplan
