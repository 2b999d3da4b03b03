// The folders of hardware/ and what they hold: a file is found by its id, which
// is its name, or by an alias inside it. Case, spaces and _ do not matter.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "spec/hardware_file.h"

namespace ztplan {

enum class HardwareFolder { devices, nodes, clusters, networks, frameworks };

/// A name as ids are spelled: lower case, and - for a space or _.
std::string fold_name(std::string_view name);

/// Ids of a folder, sorted. Empty when it does not exist.
std::vector<std::string> hardware_ids(HardwareFolder folder);

/// The file with this id. Throws `Error` when it cannot be read.
JsonView load_hardware(HardwareFolder folder, const std::string& id);

/// The file of this id or alias. An id costs one file, an alias all of them.
std::optional<JsonView> find_hardware(HardwareFolder folder,
                                      std::string_view name);

/// `aliases` of a file; none when it has no such key.
std::vector<std::string> aliases_of(const JsonView& file);

/// Each throws `Error` with the nearest name when there is no such file.
DeviceFile find_device(std::string_view name);
NetworkSpec find_network(std::string_view name);

/// Throws `Error`: no `what` is called `name`; adds the nearest id or alias of
/// `folders`.
[[noreturn]] void refuse_name(std::string_view what, std::string_view name,
                              std::initializer_list<HardwareFolder> folders);

}  // namespace ztplan
