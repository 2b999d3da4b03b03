#include "base/json_writer.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/quote.h"

namespace ztplan {
namespace {

constexpr std::size_t kIndent = 2;
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

bool is_plain(unsigned char c) { return c >= 0x20 && c != '"' && c != '\\'; }

std::string escape(unsigned char c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return fmt::format("\\u{:04x}", c);
  }
}

}  // namespace

JsonWriter& JsonWriter::begin_object() { return begin('{', '}'); }
JsonWriter& JsonWriter::end_object() { return end('}'); }
JsonWriter& JsonWriter::begin_array() { return begin('[', ']'); }
JsonWriter& JsonWriter::end_array() { return end(']'); }

JsonWriter& JsonWriter::key(std::string_view name) {
  require(!open_.empty() && open_.back().end == '}' && !after_key_,
          "a JSON key stands in an object, before a value");
  separate();
  append_string(name);
  out_ += layout_ == Layout::indented ? ": " : ":";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  start_value();
  append_string(text);
  return *this;
}

JsonWriter& JsonWriter::value(double number) {
  require(std::isfinite(number), "a JSON number is finite");
  const std::string digits = fmt::format("{}", number);
  const bool whole = digits.find_first_of(".e") == std::string::npos;
  return literal(whole ? digits + ".0" : digits);
}

std::string JsonWriter::take() {
  require(open_.empty() && !out_.empty(), "JSON that was begun has ended");
  if (layout_ == Layout::indented) out_ += '\n';
  return std::move(out_);
}

JsonWriter& JsonWriter::integer(std::int64_t whole) {
  return literal(fmt::format_int(whole).c_str());
}

JsonWriter& JsonWriter::natural(std::uint64_t whole) {
  return literal(fmt::format_int(whole).c_str());
}

JsonWriter& JsonWriter::literal(std::string_view text) {
  start_value();
  out_ += text;
  return *this;
}

JsonWriter& JsonWriter::begin(char bracket, char end) {
  start_value();
  out_ += bracket;
  open_.push_back({end, true});
  return *this;
}

JsonWriter& JsonWriter::end(char bracket) {
  require(!open_.empty() && open_.back().end == bracket && !after_key_,
          "JSON ends what was begun last");
  const bool empty = open_.back().empty;
  open_.pop_back();
  if (!empty) break_line();
  out_ += bracket;
  return *this;
}

void JsonWriter::start_value() {
  const bool in_array = !open_.empty() && open_.back().end == ']';
  const bool alone = open_.empty() && out_.empty();
  require(in_array || after_key_ || alone,
          "a JSON value follows a key, stands in an array or alone");
  if (in_array) separate();
  after_key_ = false;
}

void JsonWriter::separate() {
  if (!open_.back().empty) out_ += ',';
  open_.back().empty = false;
  break_line();
}

void JsonWriter::break_line() {
  if (layout_ == Layout::one_line) return;
  out_ += '\n';
  out_.append(kIndent * open_.size(), ' ');
}

void JsonWriter::append_string(std::string_view text) {
  out_ += '"';
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const auto lead = static_cast<unsigned char>(text[0]);
    if (length == 0) {
      out_ += kReplacement;
    } else if (is_plain(lead)) {
      out_ += text.substr(0, length);
    } else {
      out_ += escape(lead);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out_ += '"';
}

}  // namespace ztplan
