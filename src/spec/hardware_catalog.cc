#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/quote.h"
#include "spec/blueprint.h"
#include "spec/catalog.h"
#include "spec/cluster_overrides.h"
#include "spec/hardware_folder.h"

namespace ztplan {
namespace {

bool is_path(std::string_view name) {
  return name.find('/') != std::string_view::npos || name.ends_with(".json");
}

Blueprint machine_blueprint(const JsonView& file) {
  return make_blueprint(parse_machine(file));
}

/// The usual node of a device, with that device in it.
Blueprint device_blueprint(const DeviceFile& device) {
  if (device.usual_node.empty()) {
    throw Error(device.device.id + ": no node is usual for it",
                "name one with --cluster");
  }
  const auto node = find_hardware(HardwareFolder::nodes, device.usual_node);
  if (!node) {
    refuse_name("node", device.usual_node, {HardwareFolder::nodes});
  }
  Blueprint blueprint = machine_blueprint(*node);
  place_device(blueprint, device);
  return blueprint;
}

Blueprint named_blueprint(std::string_view name) {
  if (is_path(name)) {
    return machine_blueprint(JsonView::load(std::string(name)));
  }
  for (const auto folder : {HardwareFolder::nodes, HardwareFolder::clusters}) {
    if (const auto file = find_hardware(folder, name)) {
      return machine_blueprint(*file);
    }
  }
  if (const auto file = find_hardware(HardwareFolder::devices, name)) {
    return device_blueprint(parse_device(*file));
  }
  refuse_name("cluster, node or GPU", name,
              {HardwareFolder::nodes, HardwareFolder::clusters,
               HardwareFolder::devices});
}

Blueprint find_blueprint(std::string_view name, const std::string& gpu) {
  if (name.empty()) {
    return gpu.empty() ? named_blueprint(kDefaultCluster)
                       : device_blueprint(find_device(gpu));
  }
  Blueprint blueprint = named_blueprint(name);
  if (!gpu.empty()) place_device(blueprint, find_device(gpu));
  return blueprint;
}

/// Devices of one node when both counts are given: `devices` over `nodes`.
int devices_over_nodes(const Blueprint& blueprint, int devices,
                       const ClusterOverrides& overrides) {
  const int nodes = overrides.nodes;
  if (devices % nodes != 0) {
    throw Error(
        fmt::format("{} GPUs do not divide over {} nodes", devices, nodes),
        fmt::format("take a multiple of {}", nodes));
  }
  const int per_node = devices / nodes;
  const int given = overrides.gpus_per_node;
  if (given > 0 && given != per_node) {
    throw Error(
        fmt::format("{} GPUs are not {} nodes of {}", devices, nodes, given),
        "leave one of the three out");
  }
  if (given == 0 && per_node > blueprint.cluster.devices_per_node) {
    throw Error(
        fmt::format("{} GPUs a node: a node of {} has {}", per_node,
                    blueprint.cluster.name, blueprint.cluster.devices_per_node),
        "take more nodes, or set --gpus-per-node");
  }
  return per_node;
}

int count_devices(const Blueprint& blueprint, int devices, int nodes) {
  const int node = blueprint.cluster.devices_per_node;
  if (devices != 0) return devices;
  if (nodes > kMostDevices / node) {
    throw Error(
        fmt::format("{} nodes of {} GPUs", nodes, node),
        fmt::format("at most {} GPUs can be planned for", kMostDevices));
  }
  if (nodes > 0) return nodes * node;
  const int most = blueprint.reach.back();
  return most == kMostDevices ? node : most;
}

std::vector<ClusterSpec> all_machines(HardwareFolder folder) {
  std::vector<ClusterSpec> machines;
  for (const std::string& id : hardware_ids(folder)) {
    const Blueprint blueprint = machine_blueprint(load_hardware(folder, id));
    machines.push_back(lay_out(blueprint, count_devices(blueprint, 0, 0)));
  }
  return machines;
}

}  // namespace

ClusterSpec load_cluster(std::string_view name_or_path, int devices,
                         const ClusterOverrides& overrides) {
  if (overrides.nodes < 0) {
    throw Error(fmt::format("{} nodes", overrides.nodes),
                "at least 1 is needed");
  }
  Blueprint blueprint = find_blueprint(name_or_path, overrides.gpu);
  ClusterOverrides settled = overrides;
  if (devices > 0 && overrides.nodes > 0) {
    settled.gpus_per_node = devices_over_nodes(blueprint, devices, overrides);
  }
  apply_overrides(blueprint, settled);
  return lay_out(blueprint, count_devices(blueprint, devices, overrides.nodes));
}

std::vector<DeviceSpec> all_devices() {
  std::vector<DeviceSpec> devices;
  for (const std::string& id : hardware_ids(HardwareFolder::devices)) {
    devices.push_back(
        parse_device(load_hardware(HardwareFolder::devices, id)).device);
  }
  return devices;
}

std::vector<ClusterSpec> all_nodes() {
  return all_machines(HardwareFolder::nodes);
}

std::vector<ClusterSpec> all_clusters() {
  return all_machines(HardwareFolder::clusters);
}

std::vector<NetworkSpec> all_networks() {
  std::vector<NetworkSpec> networks;
  for (const std::string& id : hardware_ids(HardwareFolder::networks)) {
    networks.push_back(
        parse_network(load_hardware(HardwareFolder::networks, id)));
  }
  return networks;
}

}  // namespace ztplan
