// ztplan version: which program this is.
#include <fmt/format.h>

#include "base/json_writer.h"
#include "cli/command.h"

namespace ztplan {
namespace {

constexpr const FlagGroup* kGroups[] = {&kOutputFlags};

Exit run_version(const Flags&, const Console& console) {
  if (console.format != Format::json) {
    print(fmt::format("ztplan {}\n", ZTPLAN_VERSION));
    return Exit::yes;
  }
  JsonWriter json(JsonWriter::Layout::indented);
  json.begin_object().field("schema", "ztplan.version/1");
  json.field("version", ZTPLAN_VERSION).end_object();
  print(json.take());
  return Exit::yes;
}

}  // namespace

const Command kVersion{
    "version",  "Prints the version of ztplan.",
    "",         {"ztplan version", "ztplan version --json", "ztplan --version"},
    kGroups,    0,
    run_version};

}  // namespace ztplan
