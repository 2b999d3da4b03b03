// The tensors a step allocates, by name and size: what an allocation of so many
// bytes may have been.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"
#include "strategy/ledger.h"

namespace ztplan {

struct Tensor {
  std::string name;   // "attention scores"
  std::string shape;  // "16 x 32 x 4096 x 4096 fp32"
  Bytes bytes;
  Phase phase;  // when it is allocated
};

/// Of one device of the stages: activations, logits, gathered weights, buckets,
/// gradients and states. Attention scores are listed even for flash attention,
/// which does not make them. Requires a legal strategy.
std::vector<Tensor> tensors_of(const Setting& setting, const Engine& engine,
                               const Strategy& strategy);

/// Those within `tolerance` of `bytes`, closest first, each size once.
std::vector<Tensor> matching(const std::vector<Tensor>& tensors, Bytes bytes,
                             Bytes tolerance);

}  // namespace ztplan
