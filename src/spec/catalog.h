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

/// What the command line may change of a machine; empty fields keep it. A
/// changed level has Trust::given and says in `source` what was understood.
struct ClusterOverrides {
  /// A device of hardware/: in the node it usually sits in when no machine is
  /// named, else in place of that machine's own.
  std::string gpu = {};
  /// Between nodes: "25Gbps" (or "25Gbps/node") is what one node has, as clouds
  /// state it, shared by its devices; "400Gbps/gpu" is per device; "8x400Gbps"
  /// counts the ports of a node; "ib-ndr" or "4xib-hdr" names the ports.
  /// Levels further out keep their share of it.
  std::string network = {};
  /// Inside a node, in place of all its links: "pcie4", "nvlink3" or another
  /// id of hardware/networks, or "100GB/s" per device in one direction.
  std::string intra = {};
  std::string p2p = {};            // "off": through host memory; "on"
  std::string host_memory = {};    // "1TiB", of one node
  std::string nvme = {};           // "4TB" or "4TB@6GB/s", of one node; "off"
  std::string device_memory = {};  // "40GiB", what the framework reports
  int gpus_per_node = 0;  // NICs change in proportion, the host does not
  int nodes = 0;
};

/// The machine that is meant when nothing is said.
constexpr std::string_view kDefaultCluster = "dgx-h100";

/// The machine `name_or_path` (an id or alias of hardware/nodes, clusters or
/// devices; a path to a machine file; "": the default or overrides.gpu's) laid
/// out for `devices`: 1 to kMostDevices; 0 means one node, overrides.nodes of
/// them, or the whole of a cluster that has a size.
/// Fewer devices than a node has use a part of one; more must fill whole nodes.
/// Where devices do not fill a level (256 in NVLink domains of 72), its groups
/// are equal and as large as possible: 4 of 64.
/// Throws `Error` with the nearest name or the nearest numbers.
ClusterSpec load_cluster(std::string_view name_or_path, int devices,
                         const ClusterOverrides& overrides);

struct NetworkSpec {  // one row of hardware/networks
  std::string id, name;
  /// Of one port, or of all links of a device inside a node; fanout 1.
  Level level;
  std::string source;
  std::vector<std::string> aliases = {};
  std::string technology = {};     // "InfiniBand", "storage"
  BytesPerSecond write_bandwidth;  // drives; elsewhere level.bandwidth
};

/// Every file of hardware/, by id.
std::vector<DeviceSpec> all_devices();
std::vector<ClusterSpec> all_nodes();     // one node each
std::vector<ClusterSpec> all_clusters();  // whole
std::vector<NetworkSpec> all_networks();

}  // namespace ztplan
