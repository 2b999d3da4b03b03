// Every pair of features together: combinations of all dimensions of a strategy
// on at most 16 ranks, each against one rank. ZTPLAN_PARITY=full runs them all.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <string>

#include "spec/catalog.h"
#include "support/covering.h"
#include "support/training.h"

using namespace ztplan;

namespace {

constexpr int kMostRanks = 16;
constexpr std::size_t kLeast = 160;

const std::vector<Dimension> kDimensions{
    {"model",
     {"gpt:layers=4,hidden=16,heads=4,vocab=40,seq=16",
      "llama:layers=4,hidden=16,heads=8,kv_heads=4,ffn=24,vocab=40,seq=16",
      "llama:layers=4,hidden=16,heads=8,kv_heads=4,ffn=16,experts=4,top_k=2,"
      "vocab=40,seq=16"}},
    {"tensor", {"tp=1", "tp=2", "tp=4"}},
    {"sequence", {"sp=0", "sp=1"}},
    {"context",
     {"cp=1", "cp=2", "cp=4", "cp=2,cp_type=ulysses", "cp=4,cp_type=ulysses"}},
    {"expert", {"ep=1", "ep=2,load=200", "ep=4,load=400"}},
    {"data", {"dp=1", "dp=2", "dp=4"}},
    {"pipeline",
     {"pp=1", "pp=2", "pp=2,schedule=gpipe", "pp=2,vpp=2,schedule=interleaved",
      "pp=4", "pp=4,schedule=gpipe", "pp=2,schedule=zb-h1",
      "pp=4,schedule=zb-h2", "pp=2,schedule=zb-v"}},
    {"zero",
     {"zero=0", "zero=1", "zero=2", "zero=3", "zero=1,shard=2",
      "zero=2,shard=2", "zero=3,shard=2"}},
    {"offload",
     {"offload=none", "offload=cpu", "offload=nvme",
      "offload=nvme+parameters"}},
    {"recompute",
     {"recompute=none", "recompute=full", "recompute=full:1",
      "recompute=selective:attention+norms+activation"}},
    {"micro", {"micro=1", "micro=2"}},
    {"precision", {"fp32", "bf16"}},
    {"lanes", {"immediate", "deferred"}},
};

const std::string& value(const Combination& at, const char* name) {
  for (std::size_t i = 0; i < kDimensions.size(); ++i)
    if (kDimensions[i].name == name) return kDimensions[i].values[at[i]];
  throw std::out_of_range(name);
}

std::string strategy_of(const Combination& at) {
  std::string text;
  for (const char* name : {"tensor", "sequence", "context", "expert", "data",
                           "pipeline", "zero", "offload", "recompute", "micro"})
    text += (text.empty() ? "" : ",") + value(at, name);
  return text;
}

TrainingCase case_of(const Combination& at, const std::string& strategy) {
  return {.model = value(at, "model"),
          .strategy = strategy,
          .precision = parse_precision(value(at, "precision")),
          .global_batch = 8,
          .steps = 2,
          .lanes = value(at, "lanes") == "deferred" ? CpuLanes::deferred
                                                    : CpuLanes::immediate};
}

/// What one rank makes of the same model and micro-batches, in fp32.
const Training& alone(const Combination& at) {
  static std::map<std::string, Training> known;
  const std::string key = value(at, "model") + value(at, "micro");
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  TrainingCase one = case_of(at, "dp=1," + value(at, "micro"));
  one.precision = Precision::fp32;
  one.lanes = CpuLanes::immediate;
  return known.emplace(key, train(one)).first->second;
}

double relative(double expected, double found) {
  return std::abs(found - expected) / std::abs(expected);
}

}  // namespace

TEST_CASE("exec: any two features work together") {
  const bool full = std::getenv("ZTPLAN_PARITY") != nullptr;
  const std::vector<Combination> legal =
      legal_product(kDimensions, [](const Combination& at) {
        return is_legal(case_of(at, strategy_of(at)), kMostRanks);
      });
  const std::vector<Combination> chosen =
      full ? legal : cover_pairs(kDimensions, legal, kLeast);
  CHECK(chosen.size() >= kLeast);
  CHECK(count_pairs(kDimensions, chosen) == count_pairs(kDimensions, legal));
  MESSAGE(chosen.size(), " of ", legal.size(), " combinations");
  for (const Combination& at : chosen) {
    const TrainingCase one = case_of(at, strategy_of(at));
    CAPTURE(one.model);
    CAPTURE(one.strategy);
    CAPTURE(value(at, "precision"));
    CAPTURE(value(at, "lanes"));
    const Training found = train(one);
    const Training& expected = alone(at);
    // fp32: sums in another order; bf16: 8 bits of every number.
    const bool exact = one.precision == Precision::fp32;
    for (std::size_t i = 0; i < expected.losses.size(); ++i) {
      CHECK(relative(expected.losses[i], found.losses[i]) <
            (exact ? 1e-5 : 4e-3));
      CHECK(relative(expected.gradient_norms[i], found.gradient_norms[i]) <
            (exact ? 1e-5 : 5e-2));
    }
    for (const std::string& difference : found.differences)
      FAIL_CHECK(difference);
  }
}
