#include "strategy/engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/nearest.h"
#include "base/quote.h"
#include "base/units.h"
#include "strategy/engines/engines.h"

namespace ztplan {
namespace {

const Rule* first_broken(std::span<const Rule> rules, const Setting& setting,
                         const Strategy& strategy) {
  for (const Rule& rule : rules) {
    if (rule.broken(setting, strategy)) return &rule;
  }
  return nullptr;
}

bool is_common(const Rule& rule) {
  for (const Rule& common : common_rules()) {
    if (&common == &rule) return true;
  }
  return false;
}

}  // namespace

std::span<const Engine* const> engines() {
  static const Engine* const all[] = {&megatron_engine(), &native_engine(),
                                      &deepspeed_engine(), &fsdp_engine(),
                                      &colossalai_engine()};
  return all;
}

std::span<const Engine* const> default_engines() {
  constexpr std::size_t kSearched = 4;  // the first of all
  return engines().first(kSearched);
}

const Engine& find_engine(std::string_view name) {
  std::vector<std::string> names;
  for (const Engine* engine : engines()) {
    if (name == engine->name) return *engine;
    names.emplace_back(engine->name);
  }
  const std::string close = nearest_name(name, names);
  throw Error(fmt::format("there is no engine {}; engines: {}", quote(name),
                          fmt::join(names, ", ")),
              close.empty() ? "" : fmt::format("did you mean {}?", close));
}

const Rule* broken_rule(const Engine& engine, const Setting& setting,
                        const Strategy& strategy) {
  const Rule* rule = first_broken(common_rules(), setting, strategy);
  return rule ? rule : first_broken(engine.rules, setting, strategy);
}

Misfit explain(const Engine& engine, const Rule& rule, const Setting& setting,
               const Strategy& strategy) {
  Misfit misfit = rule.explain(setting, strategy);
  misfit.rule = rule.name;
  misfit.engine = is_common(rule) ? "any" : engine.name;
  misfit.source = rule.source;
  return misfit;
}

std::optional<Misfit> why_illegal(const Engine& engine, const Setting& setting,
                                  const Strategy& strategy) {
  const Rule* rule = broken_rule(engine, setting, strategy);
  if (!rule) return std::nullopt;
  return explain(engine, *rule, setting, strategy);
}

std::int64_t padded_vocab(const Engine& engine, const ModelSpec& model,
                          int tensor) {
  return round_up(model.vocab, std::int64_t{engine.vocab_multiple} * tensor);
}

}  // namespace ztplan
