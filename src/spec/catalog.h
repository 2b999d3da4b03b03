// From a name, a path or a short text to a validated spec. The only part of
// spec/ that reads files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "spec/cluster.h"
#include "spec/model.h"

namespace ztplan {

/// Where models/ and hardware/ are: $ZTPLAN_DATA, beside the program
/// (../share/ztplan), or the source tree it was built from.
std::string data_directory();

/// A name or alias from models/, a path to a model file or to a Hugging Face
/// config.json, or "gpt:layers=24,hidden=1024,heads=16,vocab=50304". Throws
/// `Error` with the nearest name.
ModelSpec load_model(std::string_view name_or_path);
std::vector<ModelSpec> all_models();  // by name

/// What the command line may change of a machine; empty fields keep it.
struct ClusterOverrides {
  std::string gpu;            // device name: a node of its usual kind
  std::string network;        // "400Gbps", per device as data sheets, or an id
  std::string intra;          // "pcie4", "nvlink3" or a rate
  std::string p2p;            // "off": through host memory
  std::string host_memory;    // "1TiB", of one node
  std::string nvme;           // "4TB" or "4TB@6GB/s", of one node
  std::string device_memory;  // "40GiB"
  int gpus_per_node = 0;
  int nodes = 0;
};

/// A node or cluster name of hardware/, or a path, laid out for `devices`
/// (0: one node, or overrides.nodes of them).
ClusterSpec load_cluster(std::string_view name_or_path, int devices,
                         const ClusterOverrides& overrides);

struct NetworkSpec {  // one row of hardware/networks
  std::string id, name;
  Level level;
  std::string source;
};

std::vector<DeviceSpec> all_devices();
std::vector<ClusterSpec> all_nodes();  // one node each
std::vector<NetworkSpec> all_networks();

}  // namespace ztplan
