// ztplan models: the models it knows, and one of them in full.
#include "base/error.h"
#include "cli/command.h"
#include "cli/listing.h"
#include "report/model_list.h"
#include "spec/catalog.h"

namespace ztplan {
namespace {

constexpr const FlagGroup* kGroups[] = {&kOutputFlags};

Exit run_models(const Flags& flags, const Console& console) {
  const std::string name = shown_name("models", flags);
  if (name.empty()) {
    print(render_models(all_models(), console.format));
  } else {
    print(render_model(load_model(name), console.format));
  }
  return Exit::yes;
}

}  // namespace

const Command kModels{
    "models",
    "Lists the models, or shows one with its source.",
    "[show NAME]",
    {"ztplan models", "ztplan models show llama3-70b", "ztplan models --json"},
    kGroups,
    2,
    run_models};

}  // namespace ztplan
