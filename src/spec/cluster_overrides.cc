#include "spec/cluster_overrides.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/quantity_text.h"
#include "base/quote.h"
#include "spec/hardware_folder.h"

namespace ztplan {
namespace {

constexpr int kMostPerNode = 1024;  // no node is that large
/// Taken for a rate that comes without a technology.
constexpr std::string_view kUsualNetwork = "roce-100";
constexpr std::string_view kUsualIntra = "pcie4-x16";
constexpr std::string_view kUsualDrive = "nvme-gen4";
/// Of a PCIe link, each way, when both directions run: 18-19 of 31.5 GB/s
/// (NVIDIA nvbandwidth README, sample output on A100).
constexpr double kBothWaysShare = 18.5 / 31.5;
/// Staging writes a byte to host memory and reads it again.
constexpr int kStagingPasses = 2;

bool starts_as_number(std::string_view text) {
  return !text.empty() &&
         (text[0] == '.' || (text[0] >= '0' && text[0] <= '9'));
}

bool take_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

/// `parse` of what `option` was given, more than 0; errors name the option.
template <class Value>
Value parse_positive(std::string_view option, std::string_view text,
                     Value (*parse)(std::string_view)) {
  Value value;
  try {
    value = parse(text);
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", option, error.what()), error.hint());
  }
  if (value.value > 0) return value;
  throw Error(fmt::format("{} {}: must be more than 0", option, text));
}

/// A link by name, or a rate. Exactly one of them.
struct NamedOrRate {
  std::optional<NetworkSpec> link;
  BytesPerSecond rate;
};

/// Throws when `text` is neither; `option` names where it was given.
NamedOrRate parse_link(std::string_view option, std::string_view text) {
  if (const auto file = find_hardware(HardwareFolder::networks, text)) {
    NetworkSpec link = parse_network(*file);
    return {link, link.level.bandwidth};
  }
  if (!starts_as_number(text)) {
    refuse_name(fmt::format("link for {}", option), text,
                {HardwareFolder::networks});
  }
  return {std::nullopt, parse_positive(option, text, parse_rate)};
}

[[noreturn]] void refuse_link(std::string_view option, std::string_view text) {
  throw Error(
      fmt::format("{} {}: not a link of that kind", option, quote(text)),
      "--network joins nodes (ib-ndr), --intra the GPUs of one (pcie4)");
}

// ---------------------------------------------------------------- network

enum class Share { node, device, port };

struct GivenNetwork {
  NamedOrRate what;
  Share of = Share::node;
  int ports = 0;  // 0: as many as the node has
};

/// "8x" off the front of `text`: 8; 0 when it is not there.
int take_count(std::string_view& text) {
  int count = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, count);
  const bool counted = error == std::errc{} && end != last && *end == 'x' &&
                       count >= 1 && count <= kMostPerNode;
  if (!counted) return 0;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
  return count;
}

GivenNetwork parse_network_override(const std::string& given) {
  std::string_view text = given;
  GivenNetwork out;
  const bool per_node = take_suffix(text, "/node");
  const bool per_device =
      !per_node && (take_suffix(text, "/gpu") || take_suffix(text, "/device"));
  out.ports = take_count(text);
  if (out.ports > 0 && (per_node || per_device)) {
    throw Error(fmt::format("--network {}: counts ports and says of whom",
                            quote(given)),
                "give 8x400Gbps, or 3200Gbps/node, or 400Gbps/gpu");
  }
  out.what = parse_link("--network", text);
  if (out.what.link && out.what.link->level.kind != LinkKind::network) {
    refuse_link("--network", text);
  }
  if (per_device) out.of = Share::device;
  const bool ports = out.ports > 0 || (out.what.link && !per_node);
  if (ports && !per_device) out.of = Share::port;
  return out;
}

/// The network between nodes; one is added to a machine that has none.
Level& first_network(Blueprint& blueprint) {
  std::vector<Level>& levels = blueprint.cluster.levels;
  const std::size_t index = scale_up_levels(blueprint);
  if (index < levels.size()) return levels[index];
  if (!blueprint.reach.empty() && blueprint.reach.back() == kMostDevices) {
    throw Error(fmt::format("--network: {} has one host and no network",
                            blueprint.cluster.name));
  }
  Level network = find_network(kUsualNetwork).level;
  network.name = "network";
  levels.push_back(network);
  blueprint.reach.push_back(kMostDevices);
  return levels.back();
}

/// NICs of a node that has `rate`: of the kind it had, as many as that needs.
int ports_for(BytesPerSecond rate, const Level& level, int node) {
  if (level.nics_per_node == 0) return 1;
  const BytesPerSecond port = level.bandwidth * node / level.nics_per_node;
  const double ports = std::ceil(rate / port);
  return static_cast<int>(
      std::clamp(ports, 1.0, static_cast<double>(level.nics_per_node)));
}

/// Sets rate and ports of `level` to what was given.
void set_rate(Level& level, const GivenNetwork& given, int node) {
  const BytesPerSecond rate = given.what.rate;
  if (given.of == Share::node) {
    level.nics_per_node = ports_for(rate, level, node);
    level.bandwidth = rate / node;
  } else if (given.of == Share::device) {
    if (level.nics_per_node == 0) level.nics_per_node = node;
    level.bandwidth = rate;
  } else {
    const int ports = std::max(level.nics_per_node, 1);
    level.nics_per_node = given.ports > 0 ? given.ports : ports;
    level.bandwidth = rate * level.nics_per_node / node;
  }
}

/// Rate and ports of `level` in words, after what was typed.
std::string understood(const std::string& text, const Level& level, int node) {
  return fmt::format("given: {}: {} a device ({} port{} a node, {} device{})",
                     text, ztplan::text(level.bandwidth), level.nics_per_node,
                     level.nics_per_node == 1 ? "" : "s", node,
                     node == 1 ? "" : "s");
}

void override_network(Blueprint& blueprint, const std::string& text) {
  const GivenNetwork given = parse_network_override(text);
  const int node = blueprint.cluster.devices_per_node;
  Level& inner = first_network(blueprint);
  const BytesPerSecond before = inner.bandwidth;
  set_rate(inner, given, node);
  const double change = inner.bandwidth / before;
  std::vector<Level>& levels = blueprint.cluster.levels;
  for (std::size_t i = scale_up_levels(blueprint); i < levels.size(); ++i) {
    Level& level = levels[i];
    if (&level != &inner) level.bandwidth = level.bandwidth * change;
    level.nics_per_node = inner.nics_per_node;
    if (given.what.link) {
      level.achieved = given.what.link->level.achieved;
      level.latency = given.what.link->level.latency;
    }
    level.trust = Trust::given;
    level.source = understood(text, level, node);
  }
}

// ---------------------------------------------------------------- in a node

/// `level` in place of all links that are not a network, joining `reach`.
void replace_scale_up(Blueprint& blueprint, Level level, int reach) {
  const auto count = static_cast<std::ptrdiff_t>(scale_up_levels(blueprint));
  std::vector<Level>& levels = blueprint.cluster.levels;
  levels.erase(levels.begin(), levels.begin() + count);
  levels.insert(levels.begin(), std::move(level));
  blueprint.reach.erase(blueprint.reach.begin(),
                        blueprint.reach.begin() + count);
  blueprint.reach.insert(blueprint.reach.begin(), reach);
}

/// Devices the innermost links join: a node, or a domain of several.
int scale_up_reach(const Blueprint& blueprint) {
  const std::size_t count = scale_up_levels(blueprint);
  const int node = blueprint.cluster.devices_per_node;
  return count == 0 ? node : std::max(node, blueprint.reach[count - 1]);
}

void override_intra(Blueprint& blueprint, const std::string& text) {
  const NamedOrRate given = parse_link("--intra", text);
  const bool has_links = scale_up_levels(blueprint) > 0;
  Level level = has_links ? blueprint.cluster.levels.front()
                          : find_network(kUsualIntra).level;
  if (given.link) {
    level = given.link->level;
    const bool joins_devices =
        level.kind != LinkKind::network && level.kind != LinkKind::memory;
    if (!joins_devices) refuse_link("--intra", text);
  }
  level.name = to_text(level.kind);
  level.bandwidth = given.rate;
  level.trust = Trust::given;
  level.source =
      fmt::format("given: {}: {} a device", text, ztplan::text(given.rate));
  const int reach = level.kind == LinkKind::pcie
                        ? blueprint.cluster.devices_per_node
                        : scale_up_reach(blueprint);
  replace_scale_up(blueprint, level, reach);
}

/// Traffic between devices goes through host memory: over the host link of
/// each, both ways at once, and twice over the memory all devices share.
void stage_through_host(Blueprint& blueprint) {
  const HostSpec& host = blueprint.cluster.host;
  const int node = blueprint.cluster.devices_per_node;
  const BytesPerSecond memory = host.memory_bandwidth / (kStagingPasses * node);
  Level level;
  level.name = "host";
  level.kind = LinkKind::pcie;
  level.bandwidth = std::min(host.device_link, memory);
  level.achieved = kBothWaysShare;
  level.trust = Trust::given;
  level.source = fmt::format("given: p2p off: through host memory, {} a device",
                             text(level.bandwidth));
  replace_scale_up(blueprint, level, node);
}

void override_p2p(Blueprint& blueprint, const std::string& word) {
  if (word == "on") return;
  if (word != "off") {
    throw Error(fmt::format("--p2p {}", quote(word)), "give on or off");
  }
  stage_through_host(blueprint);
}

void override_devices_per_node(Blueprint& blueprint,
                               const ClusterOverrides& overrides) {
  const int devices = overrides.gpus_per_node;
  if (devices < 0 || devices > kMostPerNode) {
    throw Error(fmt::format("--gpus-per-node {}", devices),
                fmt::format("give 1 to {}", kMostPerNode));
  }
  if (devices == 0) return;
  const bool joined = scale_up_levels(blueprint) > 0 ||
                      !overrides.intra.empty() || overrides.p2p == "off";
  if (devices > 1 && !joined) {
    throw Error(fmt::format("--gpus-per-node {}: nodes of {} have one GPU and "
                            "no link between several",
                            devices, blueprint.cluster.name),
                "say how they are joined: --intra pcie5, --intra nvlink4, ...");
  }
  set_devices_per_node(blueprint, devices);
}

// ---------------------------------------------------------------- host

/// "4TB@6GB/s": the drives of a node together, both ways alike.
void override_nvme(HostSpec& host, const std::string& text) {
  if (text == "off" || text == "none" || text == "0") {
    host.nvme = {};
    host.nvme_read = host.nvme_write = {};
    return;
  }
  const std::size_t at = text.find('@');
  host.nvme = parse_positive("--nvme", std::string_view(text).substr(0, at),
                             parse_bytes);
  if (at != std::string::npos) {
    host.nvme_read = parse_positive(
        "--nvme", std::string_view(text).substr(at + 1), parse_rate);
    host.nvme_write = host.nvme_read;
  } else if (host.nvme_read.value == 0) {
    const NetworkSpec drive = find_network(kUsualDrive);
    host.nvme_read = drive.level.bandwidth;
    host.nvme_write = drive.write_bandwidth;
  }
}

void override_host(HostSpec& host, const ClusterOverrides& overrides) {
  if (!overrides.host_memory.empty()) {
    host.memory =
        parse_positive("--host-memory", overrides.host_memory, parse_bytes);
  }
  if (!overrides.nvme.empty()) override_nvme(host, overrides.nvme);
}

}  // namespace

void apply_overrides(Blueprint& blueprint, const ClusterOverrides& overrides) {
  override_devices_per_node(blueprint, overrides);
  if (!overrides.intra.empty()) override_intra(blueprint, overrides.intra);
  if (!overrides.p2p.empty()) override_p2p(blueprint, overrides.p2p);
  if (!overrides.network.empty()) {
    override_network(blueprint, overrides.network);
  }
  override_host(blueprint.cluster.host, overrides);
  if (!overrides.device_memory.empty()) {
    blueprint.cluster.device.memory =
        parse_positive("--device-memory", overrides.device_memory, parse_bytes);
  }
}

}  // namespace ztplan
