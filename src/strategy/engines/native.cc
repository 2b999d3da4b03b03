// ztplan's own executor: whatever the common rules allow.
#include "strategy/engines/engines.h"

namespace ztplan {
namespace {

// Rows of the vocabulary on one rank fill whole tiles of its matmul, 64 wide
// at the least. Source: NVIDIA/cutlass media/docs/efficient_gemm.md.
constexpr int kVocabMultiple = 64;
// As Megatron-LM's, megatron/core/distributed/distributed_data_parallel.py:
// large enough for a ring to reach its bandwidth.
constexpr std::int64_t kBucketElements = 40'000'000;

constexpr Engine kEngine = {
    "native", "ztplan 0.1", {}, kVocabMultiple, kBucketElements};

}  // namespace

const Engine& native_engine() { return kEngine; }

}  // namespace ztplan
