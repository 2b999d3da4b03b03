#include <algorithm>

#include "base/error.h"
#include "spec/cluster.h"

namespace ztplan {
namespace {

bool fills_evenly(const ClusterSpec& cluster, int devices) {
  int left = devices;
  for (const Level& level : cluster.levels) {
    const int taken = std::min(left, level.fanout);
    if (left % taken != 0) return false;
    left /= taken;
  }
  return left == 1;
}

}  // namespace

ClusterSpec first_devices(const ClusterSpec& cluster, int devices) {
  require(fills_evenly(cluster, devices), "devices fill the levels evenly");
  ClusterSpec part = cluster;
  part.devices = devices;
  part.devices_per_node = std::min(cluster.devices_per_node, devices);
  int left = devices;
  for (Level& level : part.levels) {
    level.fanout = std::min(left, level.fanout);
    left /= level.fanout;
  }
  return part;
}

std::vector<int> device_counts(const ClusterSpec& cluster) {
  std::vector<int> counts;
  for (int n = 1; n < cluster.devices_per_node; n *= 2) counts.push_back(n);
  for (std::int64_t n = cluster.devices_per_node; n < cluster.devices; n *= 2)
    counts.push_back(static_cast<int>(n));
  std::erase_if(counts, [&](int n) { return !fills_evenly(cluster, n); });
  counts.push_back(cluster.devices);
  return counts;
}

}  // namespace ztplan
