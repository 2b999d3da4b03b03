// The engines whose rules a strategy must obey. One file an engine in
// engines/; adding one touches no other.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spec/cluster.h"
#include "spec/model.h"
#include "strategy/strategy.h"

namespace ztplan {

/// Why a strategy will not do, and what would.
struct Misfit {
  std::string rule;     // stable name: "heads-divide"
  std::string detail;   // the values: "heads 96 is not a multiple of tp 5"
  std::string nearest;  // the nearest legal values: "tp 4 or 6"
  std::string engine;   // whose rule it is: "any" or an engine's name
  std::string source;   // where the rule is written down
};

/// All that legality may look at.
struct Setting {
  const ModelSpec& model;
  const ClusterSpec& cluster;
  const Workload& workload;
};

/// A rule. `broken` is cheap (search asks it a million times) and exact;
/// `explain` makes the text once somebody wants it.
struct Rule {
  const char* name;
  const char* source;
  bool (*broken)(const Setting&, const Strategy&);
  Misfit (*explain)(const Setting&, const Strategy&);
};

struct Engine {
  const char* name;             // "megatron"
  const char* version;          // whose behaviour the rules and sizes are
  std::span<const Rule> rules;  // beside the rules that hold for any engine
  int vocab_multiple;  // rows of the vocabulary are padded to this times tensor
  std::int64_t bucket_elements;  // of gradient reduction, at least
};

/// Rules of arithmetic and of transformers, true for every engine.
std::span<const Rule> common_rules();

/// All engines, the default first. `find_engine` throws `Error` on a name it
/// does not know and says which it does.
std::span<const Engine* const> engines();
const Engine& find_engine(std::string_view name);

/// The first rule broken, common ones first; empty when legal.
const Rule* broken_rule(const Engine& engine, const Setting& setting,
                        const Strategy& strategy);
std::optional<Misfit> why_illegal(const Engine& engine, const Setting& setting,
                                  const Strategy& strategy);

/// Vocabulary rows as the engine pads them under tensor parallelism.
std::int64_t padded_vocab(const Engine& engine, const ModelSpec& model,
                          int tensor);

}  // namespace ztplan
