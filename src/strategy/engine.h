// The engines whose rules a strategy must obey: which exist, and whether a
// strategy is legal. The rules themselves are in engines/, one file an engine;
// adding one adds its line to the list in engine.cc.
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

/// A rule. `broken` is cheap (search asks it a million times), exact and
/// allocates nothing; `explain` makes detail and nearest once somebody wants
/// them. A rule may lean on those before it in its list: `broken` of sizes
/// below 1 is asked of the first only, and `explain` only of what it broke.
struct Rule {
  const char* name;
  const char* source;
  bool (*broken)(const Setting&, const Strategy&);
  Misfit (*explain)(const Setting&, const Strategy&);
};

struct EngineMemory;  // strategy/engine_memory.h

struct Engine {
  const char* name;             // "megatron"
  const char* version;          // whose behaviour the rules and sizes are
  std::span<const Rule> rules;  // beside the rules that hold for any engine
  int vocab_multiple;  // rows of the vocabulary are padded to this times tensor
  std::int64_t bucket_elements;  // of gradient reduction, at least
  const EngineMemory* memory;    // what it keeps on a device and on the host
  /// src/exec runs its graphs: every call of every rank is an item of a recipe,
  /// and every byte a holding.
  bool executed = false;
};

/// Rules of arithmetic and of transformers, true for every engine.
std::span<const Rule> common_rules();

/// All engines, the default first. `find_engine` throws `Error` on a name it
/// does not know and says which it does.
std::span<const Engine* const> engines();
/// Those a search goes by when none is named: docs/decisions.
std::span<const Engine* const> default_engines();
const Engine& find_engine(std::string_view name);

/// The first rule broken, common ones first; null when legal. Allocates
/// nothing.
const Rule* broken_rule(const Engine& engine, const Setting& setting,
                        const Strategy& strategy);

/// What a rule that `strategy` breaks says of it, with the rule's name, source
/// and engine. Requires a rule of `engine` or a common one.
Misfit explain(const Engine& engine, const Rule& rule, const Setting& setting,
               const Strategy& strategy);
std::optional<Misfit> why_illegal(const Engine& engine, const Setting& setting,
                                  const Strategy& strategy);

/// Vocabulary rows as the engine pads them under tensor parallelism.
std::int64_t padded_vocab(const Engine& engine, const ModelSpec& model,
                          int tensor);

}  // namespace ztplan
