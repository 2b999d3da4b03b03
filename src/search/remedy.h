// The single changes that would help a strategy, and what each costs.
#pragma once

#include <string>
#include <vector>

#include "search/evaluate.h"

namespace ztplan {

/// A change of one thing: "micro 4 -> 1". The question may change with it
/// (attention, loss, number of GPUs, adapters).
struct Remedy {
  std::string change;
  Question question;
  Plan plan;
  bool fits = false;
};

/// Changes that are legal for `engine` and make `strategy` fit, fastest first;
/// where none does alone, pairs of them; where no pair does, those that save
/// most, so that `fits` tells. At most `most`. Considers smaller micro-batches,
/// recomputation, higher ZeRO stages, offload, smaller buckets, flash
/// attention, fused or chunked loss, 8-bit optimizer states, adapters, more
/// tensor parallelism and more GPUs.
std::vector<Remedy> remedies(const Question& question, const Engine& engine,
                             const Strategy& strategy, std::size_t most);

/// Those of `remedies` that take less of the hosts, whatever the plan predicts
/// of them: for a run that the operating system ended.
std::vector<Remedy> host_remedies(const Question& question,
                                  const Engine& engine,
                                  const Strategy& strategy, std::size_t most);

}  // namespace ztplan
