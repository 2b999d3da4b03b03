#include <algorithm>
#include <cstdint>

#include "interop/megatron.h"

namespace ztplan {
namespace {

constexpr std::size_t kLongest = 200'000;  // characters, once written out

/// Writes "x*3" and "(x|)*3" out. Empty when the brackets do not match or the
/// text would grow past reason.
std::string written_out(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    std::string piece(1, text[i]);
    if (text[i] == '(') {
      const std::size_t end = text.find(')', i);
      if (end == std::string_view::npos) return "";
      piece = text.substr(i + 1, end - i - 1);
      i = end;
    }
    ++i;
    std::size_t times = 1;
    if (i < text.size() && text[i] == '*') {
      times = 0;
      for (++i; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i)
        times = std::min(times * 10 + static_cast<std::size_t>(text[i] - '0'),
                         kLongest);
    }
    if (out.size() + piece.size() * times > kLongest) return "";
    for (std::size_t n = 0; n < times; ++n) out += piece;
  }
  return out;
}

}  // namespace

std::string pipeline_layout(const std::vector<int>& layers) {
  std::string text = "E";
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (i > 0) text += '|';
    text.append(static_cast<std::size_t>(layers[i]), 't');
  }
  return text + "L";
}

std::vector<int> parse_pipeline_layout(std::string_view text) {
  std::string plain(text);
  std::erase_if(plain, [](char c) { return c == ',' || c == ' '; });
  plain = written_out(plain);
  const bool has_ends = std::ranges::count(plain, 'E') == 1 &&
                        std::ranges::count(plain, 'L') == 1;
  if (!has_ends || plain.find_first_not_of("EtmL|") != std::string::npos)
    return {};
  std::vector<int> layers = {0};
  for (const char c : plain) {
    if (c == '|') layers.push_back(0);
    if (c == 't') ++layers.back();
  }
  return layers;
}

}  // namespace ztplan
