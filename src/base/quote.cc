#include "base/quote.h"

#include <fmt/format.h>

#include <algorithm>

namespace ztplan {
namespace {

constexpr std::size_t kLongest = 60;  // bytes shown of a user's text

unsigned char byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

std::size_t length_by_lead(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

/// Overlong forms, surrogates and code points past U+10FFFF (RFC 3629).
bool is_forbidden(unsigned char lead, unsigned char second) {
  return (lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
         (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F);
}

std::string escape(unsigned char byte) {
  if (byte == '\n') return "\\n";
  if (byte == '\t') return "\\t";
  if (byte == '"') return "\\\"";
  return fmt::format("\\x{:02x}", byte);
}

bool is_plain(std::string_view sequence) {
  const unsigned char lead = byte_at(sequence, 0);
  if (lead == 0xC2) return byte_at(sequence, 1) >= 0xA0;  // no C1 controls
  return lead >= 0x20 && lead != 0x7F;
}

/// Adds the character at `i` as it may be shown; `escaped` is one that has to
/// be. Returns the bytes it takes of `text`.
std::size_t add_shown(std::string_view text, std::size_t i, char escaped,
                      std::string& out) {
  const std::size_t length = utf8_length(text.substr(i));
  const bool plain =
      length > 0 && text[i] != escaped && is_plain(text.substr(i, length));
  out += plain ? std::string(text.substr(i, length)) : escape(byte_at(text, i));
  return plain ? length : 1;
}

}  // namespace

std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const std::size_t length = length_by_lead(byte_at(text, 0));
  if (length == 0 || length > text.size()) return 0;
  if (length > 1 && is_forbidden(byte_at(text, 0), byte_at(text, 1))) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte_at(text, i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

std::string shortened(std::string text) {
  if (text.size() <= kLongest) return text;
  text.resize(kLongest);
  return text + "...";
}

std::string quote(std::string_view text) {
  std::string out = "\"";
  std::size_t i = 0;
  while (i < text.size() && i < kLongest) i += add_shown(text, i, '"', out);
  return out + (i < text.size() ? "...\"" : "\"");
}

std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) i += add_shown(text, i, 0, out);
  return out;
}

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

}  // namespace ztplan
