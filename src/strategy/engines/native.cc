// ztplan's own executor: whatever the common rules allow.
#include "strategy/engine_memory.h"
#include "strategy/engines/engines.h"

namespace ztplan {
namespace {

// Rows of the vocabulary on one rank fill whole tiles of its matmul, 64 wide
// at the least. Source: NVIDIA/cutlass media/docs/efficient_gemm.md.
constexpr int kVocabMultiple = 64;
// As Megatron-LM's, megatron/core/distributed/distributed_data_parallel.py:
// large enough for a ring to reach its bandwidth.
constexpr std::int64_t kBucketElements = 40'000'000;

// Two buckets: one is filled while the other is reduced. Gradients go to
// the host, and weights come back, in pieces.
constexpr EngineMemory kMemory = {.loss = LossKernel::vocab_parallel,
                                  .buckets_sharded = 2,
                                  .buckets = 2,
                                  .buckets_beside = 2,
                                  .host_gradient_bytes = 0,
                                  .source = "ztplan: double-buffered buckets"};

constexpr Engine kEngine = {"native",        "ztplan 0.1", {},  kVocabMultiple,
                            kBucketElements, &kMemory,     true};

}  // namespace

const Engine& native_engine() { return kEngine; }

}  // namespace ztplan
