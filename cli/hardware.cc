// ztplan hardware: the machines it knows, and one of them in full.
#include "cli/command.h"
#include "cli/listing.h"
#include "report/hardware_list.h"

namespace ztplan {
namespace {

constexpr const FlagGroup* kGroups[] = {&kOutputFlags};

Exit run_hardware(const Flags& flags, const Console& console) {
  const std::string name = shown_name("hardware", flags);
  const Hardware all{all_devices(), all_nodes(), all_clusters(), all_networks(),
                     all_frameworks()};
  if (name.empty()) {
    print(render_hardware(all, console.format));
  } else {
    print(render_hardware_facts(find_hardware(all, name), console.format));
  }
  return Exit::yes;
}

}  // namespace

const Command kHardware{
    "hardware",
    "Lists devices, nodes, networks and versions of engines.",
    "[show NAME]",
    {"ztplan hardware", "ztplan hardware show dgx-h100",
     "ztplan hardware --json"},
    kGroups,
    2,
    run_hardware};

}  // namespace ztplan
