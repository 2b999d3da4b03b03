// What stands beside the memory terms of a plan: what each meter would show,
// the state before the first step, the largest tensor.
#pragma once

#include "search/question.h"
#include "strategy/ledger.h"

namespace ztplan {

/// Of the fullest stage of a plan.
struct MemoryFacts {
  Ledger holdings;    // all it holds, on every tier
  Bytes states;       // weights, gradients, optimizer states at the peak
  Bytes allocated;    // tensors at the peak
  Bytes reserved;     // what the allocator holds at the peak
  Bytes device_used;  // what the driver shows: context, communicators too
  EdgePeak load;      // before the first step
  EdgePeak save;      // while whole weights are written
  Bytes activation_per_layer;  // one layer, one micro-batch; the largest layer
  LargestTensor largest_tensor;
};

Bytes states_of(const Plan& plan);
MemoryFacts memory_facts(const Question& question, const Plan& plan);

}  // namespace ztplan
