#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/error.h"
#include "base/nearest.h"
#include "spec/blueprint.h"

namespace ztplan {
namespace {

/// Requires n >= 1 and most >= 1.
int largest_divisor(int n, int most) {
  int divisor = std::min(n, most);
  while (n % divisor != 0) --divisor;
  return divisor;
}

int scaled_reach(int reach, int from, int to) {
  const std::int64_t scaled = std::int64_t{reach} / from * to;
  return static_cast<int>(std::min<std::int64_t>(scaled, kMostDevices));
}

/// The reach of a level when nodes of `from` devices become nodes of `to`.
int new_reach(const Level& level, int reach, int from, int to) {
  if (reach == kMostDevices) return reach;
  if (level.kind == LinkKind::network) return scaled_reach(reach, from, to);
  if (reach == from) return to;
  return reach < from ? std::min(reach, to) : std::max(reach, to);
}

void scale_nics(Level& level, int from, int to) {
  if (level.nics_per_node == 0) return;
  const BytesPerSecond nic = level.bandwidth * from / level.nics_per_node;
  const std::int64_t nics =
      divide_up(std::int64_t{level.nics_per_node} * to, from);
  level.nics_per_node = static_cast<int>(nics);
  level.bandwidth = nic * level.nics_per_node / to;
}

void check_whole_nodes(const Blueprint& blueprint, int devices) {
  const ClusterSpec& cluster = blueprint.cluster;
  const int node = cluster.devices_per_node;
  if (blueprint.devices_share_host || devices <= node) return;
  if (devices % node == 0) return;
  const long below = devices - devices % node;
  const std::array values{below, below + node};
  throw Error(fmt::format("{} GPUs do not fill the {}-GPU nodes of {}", devices,
                          node, cluster.name),
              fmt::format("take {}, or set --gpus-per-node",
                          nearest_values(devices, values)));
}

void check_count(const Blueprint& blueprint, int devices) {
  if (devices < 1) {
    throw Error(fmt::format("{} GPUs", devices), "at least 1 is needed");
  }
  if (devices > kMostDevices) {
    throw Error(fmt::format("{} GPUs", devices),
                fmt::format("at most {} can be planned for", kMostDevices));
  }
  const int most = blueprint.reach.back();
  if (devices > most) {
    throw Error(
        fmt::format("{} GPUs: {} joins at most {}", devices,
                    blueprint.cluster.name, most),
        "take fewer, name another machine, or add a network (--network)");
  }
  check_whole_nodes(blueprint, devices);
}

/// Fanout of level `i` over `placed` devices that are joined already.
int fanout_of(const Blueprint& blueprint, std::size_t i, int placed,
              const ClusterSpec& laid) {
  const int reach = blueprint.reach[i];
  if (reach <= blueprint.cluster.devices_per_node) {
    return largest_divisor(laid.devices_per_node / placed, reach / placed);
  }
  const int node_rest = std::max(laid.devices_per_node / placed, 1);
  const int groups = laid.devices / (placed * node_rest);
  return node_rest * largest_divisor(groups, reach / (placed * node_rest));
}

/// Groups that level `i` joins when all of it is used; 0: any number.
int capacity_of(const Blueprint& blueprint, std::size_t i) {
  const int reach = blueprint.reach[i];
  if (reach == kMostDevices) return 0;
  return i == 0 ? reach : reach / blueprint.reach[i - 1];
}

/// Devices that are processes of one host have its memory together.
void divide_host(ClusterSpec& cluster) {
  cluster.devices_per_node = cluster.devices;
  cluster.device.memory.value /= cluster.devices;
  cluster.device.memory_bandwidth.value /= cluster.devices;
}

}  // namespace

void set_devices_per_node(Blueprint& blueprint, int devices) {
  require(devices >= 1, "a node has a device");
  const int from = blueprint.cluster.devices_per_node;
  for (std::size_t i = 0; i < blueprint.reach.size(); ++i) {
    Level& level = blueprint.cluster.levels[i];
    blueprint.reach[i] = new_reach(level, blueprint.reach[i], from, devices);
    scale_nics(level, from, devices);
  }
  blueprint.cluster.price_per_node_hour *= static_cast<double>(devices) / from;
  blueprint.cluster.devices_per_node = devices;
}

ClusterSpec lay_out(const Blueprint& blueprint, int devices) {
  check_count(blueprint, devices);
  ClusterSpec laid = blueprint.cluster;
  laid.devices = devices;
  if (laid.price_per_node_hour == 0) {
    laid.price_per_node_hour =
        laid.device.price_per_hour * laid.devices_per_node;
  }
  laid.devices_per_node = std::min(laid.devices_per_node, devices);
  if (blueprint.devices_share_host) divide_host(laid);
  int placed = 1;
  for (std::size_t i = 0; i < laid.levels.size(); ++i) {
    Level& level = laid.levels[i];
    level.fanout = fanout_of(blueprint, i, placed, laid);
    level.capacity = capacity_of(blueprint, i);
    placed *= level.fanout;
  }
  validate(laid);
  return laid;
}

}  // namespace ztplan
