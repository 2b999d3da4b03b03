// The machines ztplan knows, as lists, and one of them with its source.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/style.h"
#include "spec/catalog.h"
#include "spec/framework.h"

namespace ztplan {

struct Hardware {
  std::vector<DeviceSpec> devices;
  std::vector<ClusterSpec> nodes;     // one each
  std::vector<ClusterSpec> clusters;  // whole
  std::vector<NetworkSpec> networks;
  std::vector<Framework> frameworks;  // versions of engines
};

/// JSON: schema ztplan.hardware/1 with `devices`, `nodes`, `networks`,
/// `clusters` and `frameworks`.
std::string render_hardware(const Hardware& hardware, Format format);

/// The entries of this id or alias, of whichever kind. Throws `Error` with the
/// nearest name.
Hardware find_hardware(const Hardware& hardware, std::string_view name);
/// Every fact of the entries with its source. JSON: the same schema.
std::string render_hardware_facts(const Hardware& hardware, Format format);

}  // namespace ztplan
