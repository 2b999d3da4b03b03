#include "interop/interconnect.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "interop/run_cells.h"

namespace ztplan {
namespace {

constexpr int kMostPorts = 64;  // of a node

/// Ports by the words that name them.
struct PortKind {
  std::string_view word;
  std::string_view id;  // of hardware/networks; one for each rate ends in '-'
  int gigabits = 0;     // 0: as the text says
  int ports = 0;        // of the nodes that have it
};
// The first that is found counts: a generation before its family. EFA by the
// AWS instances that have it (AWS EC2 instance types, network specifications).
constexpr std::array kKinds = {
    PortKind{"efa v4", "efa-v4", 400, 8},  PortKind{"p6", "efa-v4", 400, 8},
    PortKind{"efa v3", "efa-v3", 200, 16}, PortKind{"p5en", "efa-v3", 200, 16},
    PortKind{"efa v2", "efa-v2", 100, 32}, PortKind{"p5", "efa-v2", 100, 32},
    PortKind{"efa", "efa-v1", 100, 4},     PortKind{"xdr", "ib-xdr", 800, 8},
    PortKind{"ndr", "ib-ndr", 400, 8},     PortKind{"hdr", "ib-hdr", 200, 8},
    PortKind{"edr", "ib-edr", 100, 4},     PortKind{"roce", "roce-", 0, 0}};

/// "8x2x100 gb/s": 8 ports of 200, each of two.
struct StatedRate {
  int ports = 1;
  int gigabits = 0;  // of each; 0: none is stated
  bool counted = false;
  bool of_node = false;  // what is stated is of a whole node
};

/// The whole number that ends where `text` does, taken off it.
int take_number(std::string_view& text) {
  const std::size_t last = text.find_last_not_of("0123456789");
  const std::size_t start = last == std::string_view::npos ? 0 : last + 1;
  int value = 0;
  std::from_chars(text.data() + start, text.data() + text.size(), value);
  text = text.substr(0, start);
  return value;
}

StatedRate rate_before(std::string_view text, int unit) {
  StatedRate stated;
  while (text.ends_with(' ')) text.remove_suffix(1);
  const int rate = take_number(text);
  constexpr int kMostRate = 100'000;
  if (rate == 0 || rate > kMostRate) return stated;
  stated.gigabits = std::min(rate * unit, kMostRate);
  while (text.ends_with('x')) {
    text.remove_suffix(1);
    // An inner count bonds what it counts.
    stated.gigabits = std::min(stated.gigabits * stated.ports, kMostRate);
    stated.ports = std::clamp(take_number(text), 1, kMostPorts);
    stated.counted = true;
  }
  return stated;
}

/// `given` in small letters.
StatedRate rate_of(std::string_view given, bool counts_bytes) {
  constexpr int kBits = 8;
  const std::size_t at = given.find("gb/s");
  if (at == std::string_view::npos) return {};
  StatedRate stated =
      rate_before(given.substr(0, at), counts_bytes ? kBits : 1);
  stated.of_node =
      !stated.counted && given.find("per node", at) != std::string_view::npos;
  return stated;
}

std::string of_kind(const PortKind& kind, const StatedRate& stated) {
  const int port = kind.gigabits > 0 ? kind.gigabits : stated.gigabits;
  if (port == 0) return "";
  const std::string id = kind.id.ends_with('-')
                             ? fmt::format("{}{}", kind.id, port)
                             : std::string(kind.id);
  if (stated.gigabits == 0) return fmt::format("{}x{}", kind.ports, id);
  const int ports = stated.ports * stated.gigabits / port;
  if (!stated.counted && !stated.of_node) return fmt::format("8x{}", id);
  return fmt::format("{}x{}", std::clamp(ports, 1, kMostPorts), id);
}

std::string of_rate(const StatedRate& stated) {
  if (stated.gigabits == 0) return "";
  if (stated.counted)
    return fmt::format("{}x{}Gbps", stated.ports, stated.gigabits);
  return fmt::format("{}Gbps{}", stated.gigabits,
                     stated.of_node ? "/node" : "/gpu");
}

}  // namespace

std::string network_of(std::string_view interconnect) {
  const std::string given = folded(interconnect);
  const bool counts_bytes = interconnect.find("GB/s") != std::string_view::npos;
  const StatedRate stated = rate_of(given, counts_bytes);
  for (const PortKind& kind : kKinds)
    if (given.find(kind.word) != std::string::npos)
      return of_kind(kind, stated);
  return of_rate(stated);
}

}  // namespace ztplan
