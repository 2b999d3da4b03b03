#include "spec/framework.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/json.h"
#include "base/quote.h"
#include "spec/hardware_folder.h"

namespace ztplan {
namespace {

constexpr auto kFolder = HardwareFolder::frameworks;

struct Fact {
  const char* name;
  bool Framework::*value;
};
constexpr std::array kFacts = {
    Fact{"fused_attention", &Framework::fused_attention},
    Fact{"skips_mask", &Framework::skips_mask},
    Fact{"balances_ring", &Framework::balances_ring},
    Fact{"dropout", &Framework::dropout},
    Fact{"fuses_casts", &Framework::fuses_casts},
    Fact{"narrow_fp16_gradients", &Framework::narrow_fp16_gradients},
    Fact{"wide_bf16_gradients", &Framework::wide_bf16_gradients},
    Fact{"narrow_bf16_gradients", &Framework::narrow_bf16_gradients},
    Fact{"narrow_reduction", &Framework::narrow_reduction},
    Fact{"reduces_once", &Framework::reduces_once},
    Fact{"loads_all_kernels", &Framework::loads_all_kernels},
    Fact{"narrow_inputs", &Framework::narrow_inputs},
    Fact{"weighs_within_experts", &Framework::weighs_within_experts},
    Fact{"fused_modules", &Framework::fused_modules},
    Fact{"overlaps_gradients", &Framework::overlaps_gradients},
    Fact{"overlaps_tensor", &Framework::overlaps_tensor},
    Fact{"scatters_boundary", &Framework::scatters_boundary},
    Fact{"splits_backward", &Framework::splits_backward},
    Fact{"sends_once", &Framework::sends_once},
    Fact{"fused_experts", &Framework::fused_experts},
    Fact{"rings_only", &Framework::rings_only},
    Fact{"one_nic", &Framework::one_nic},
};

struct Count {
  const char* name;
  int Framework::*value;
};
constexpr std::array kCounts = {
    Count{"fused", &Framework::fused_kernels},
    Count{"eager", &Framework::eager_kernels},
    Count{"experts", &Framework::expert_kernels},
    Count{"per_expert", &Framework::kernels_per_expert},
    Count{"casts_per_expert", &Framework::casts_per_expert},
};

struct Loss {
  std::string_view name;
  LossKernel value;
};
constexpr std::array kLosses = {
    Loss{"fused", LossKernel::fused},
    Loss{"compiled", LossKernel::compiled},
    Loss{"vocab_parallel", LossKernel::vocab_parallel},
    Loss{"eager", LossKernel::eager},
    Loss{"upcast", LossKernel::upcast},
    Loss{"uncast", LossKernel::uncast},
    Loss{"chunked", LossKernel::chunked},
    Loss{"fused_linear", LossKernel::fused_linear},
};

/// The row of `table` called `name`; a name it does not have is an error.
template <class Table>
const auto& row_of(const Table& table, const std::string& name,
                   const JsonView& view) {
  for (const auto& row : table)
    if (name == row.name) return row;
  view.fail("nothing of a framework is called '" + name + "'");
}

/// A value with its source.
JsonView value_of(const JsonView& entry) {
  entry.allow_only({"value", "source"});
  if (entry.at("source").string().empty()) entry.fail("its source is empty");
  return entry.at("value");
}

void read_facts(Framework& framework, const JsonView& facts) {
  for (const std::string& name : facts.keys()) {
    const Fact& fact = row_of(kFacts, name, facts);
    framework.*fact.value = value_of(facts.at(name)).boolean();
  }
}

void read_counts(Framework& framework, const JsonView& counts) {
  constexpr int kMost = 10'000;
  for (const std::string& name : counts.keys()) {
    const Count& count = row_of(kCounts, name, counts);
    framework.*count.value = value_of(counts.at(name)).small_integer(1, kMost);
  }
}

LossKernel read_loss(const JsonView& kernel) {
  try {
    return parse_loss(kernel.string());
  } catch (const Error& error) {
    kernel.fail(error.what());
  }
}

JsonView file_of(std::string_view name_or_path) {
  if (name_or_path.find('/') != std::string_view::npos)
    return JsonView::load(std::string(name_or_path));
  if (auto file = find_hardware(kFolder, name_or_path)) return *file;
  refuse_name("version of an engine", name_or_path, {kFolder});
}

}  // namespace

std::string_view to_text(LossKernel kernel) {
  return std::ranges::find(kLosses, kernel, &Loss::value)->name;
}

LossKernel parse_loss(std::string_view text) {
  const auto found = std::ranges::find(kLosses, text, &Loss::name);
  if (found != kLosses.end()) return found->value;
  std::string allowed;
  for (const Loss& loss : kLosses)
    allowed += (allowed.empty() ? "" : ", ") + std::string(loss.name);
  throw Error(fmt::format("loss must be {}, not {}", allowed, quote(text)));
}

Framework parse_framework(const JsonView& file, std::string_view name) {
  file.allow_only({"id", "aliases", "engine", "default", "source", "facts",
                   "kernels", "loss", "constants", "architectures"});
  Framework framework;
  framework.id = file.at("id").string();
  framework.engine = file.at("engine").string();
  framework.source = file.at("source").string();
  framework.is_default = file.boolean_or("default", false);
  framework.file = name;
  framework.aliases = aliases_of(file);
  if (file.has("facts")) read_facts(framework, file.at("facts"));
  if (file.has("loss")) framework.loss = read_loss(value_of(file.at("loss")));
  if (file.has("kernels")) read_counts(framework, file.at("kernels"));
  return framework;
}

std::vector<FrameworkFact> facts(const Framework& framework) {
  const Framework usual;
  std::vector<FrameworkFact> all;
  all.reserve(kFacts.size());
  for (const Fact& fact : kFacts)
    all.push_back({fact.name, framework.*fact.value, usual.*fact.value});
  return all;
}

std::vector<Framework> all_frameworks() {
  const std::vector<std::string> ids = hardware_ids(kFolder);
  std::vector<Framework> all;
  all.reserve(ids.size());
  for (const std::string& id : ids)
    all.push_back(parse_framework(load_hardware(kFolder, id), id));
  return all;
}

Framework load_framework(std::string_view name_or_path) {
  return parse_framework(file_of(name_or_path), name_or_path);
}

Framework default_framework(std::string_view engine) {
  for (const Framework& framework : all_frameworks())
    if (framework.is_default && framework.engine == engine) return framework;
  throw Error("hardware/frameworks has no default of " + std::string(engine));
}

Calibration calibration_for(const DeviceSpec& device,
                            const Framework& framework) {
  Calibration calibration = published_calibration(device);
  overlay_framework(calibration, device, file_of(framework.file));
  return calibration;
}

}  // namespace ztplan
