// One file of hardware/ as its text says it: a device, a link, or a machine (a
// node, or a cluster of nodes). Names of other files stay names here;
// blueprint looks them up and fits the parts together.
// The format is described in hardware/README.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/units.h"
#include "spec/catalog.h"
#include "spec/cluster.h"

namespace ztplan {

struct DeviceFile {
  DeviceSpec device;
  BytesPerSecond scale_up;  // all links of the device, one direction
  int scale_up_links = 0;   // 0: PCIe only
  BytesPerSecond pcie;      // raw, one direction; 0: not on PCIe
  std::string usual_node;   // where `--gpu` puts it
};

/// One level of a machine. Fields that are absent come from the link.
struct LevelFile {
  std::string name;
  std::string link;  // a name of hardware/networks; "": `kind` says it all
  std::optional<LinkKind> kind;
  int fanout = 0;  // groups of the level below at most; 0: any number
  std::optional<BytesPerSecond> bandwidth;  // raw, per device, one direction
  int nics_per_node = 0;
  std::optional<BytesPerSecond> nic_rate;
  std::optional<double> achieved;
  std::optional<Seconds> latency;
  bool in_network_reduction = false;
  std::optional<Trust> trust;
  std::string source;
};

struct StorageFile {
  Bytes size;
  int drives = 0;
  std::string drive;  // a name of hardware/networks; "": `read` and `write`
  BytesPerSecond read, write;
  std::string source;
};

struct HostLinkFile {
  std::string link;  // a name of hardware/networks; "": `rate`
  int shared_by = 1;
  BytesPerSecond rate;
  std::string source;
};

struct HostFile {
  int cores = 0;
  Bytes memory;
  BytesPerSecond memory_bandwidth;
  std::string memory_bandwidth_source;
  StorageFile nvme;
  HostLinkFile device_link;
  Trust rates_trust = Trust::given;  // the least trusted of the rates
};

/// A node or a cluster. With `like`, what is absent is taken from there.
struct MachineFile {
  std::string id;
  std::vector<std::string> aliases;
  std::string like;
  std::string device;                    // a name of hardware/devices, or
  std::optional<DeviceFile> own_device;  // one described in place
  int devices_per_node = 0;
  /// Devices are processes of the host: any number of them form one node and
  /// divide its memory.
  std::optional<bool> devices_share_host;
  std::vector<LevelFile> levels;  // innermost first
  std::optional<HostFile> host;
  std::optional<double> price_per_node_hour;
  Trust trust = Trust::given;
  std::string source;
};

/// Each throws `Error` with file, path and what was expected; an unknown key
/// is an error.
DeviceFile parse_device(const JsonView& file);
NetworkSpec parse_network(const JsonView& file);
MachineFile parse_machine(const JsonView& file);

/// "quoted" and its like; throws `Error` naming the words that are known.
Trust parse_trust(const JsonView& word);

}  // namespace ztplan
