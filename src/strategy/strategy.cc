#include "strategy/strategy.h"

#include <algorithm>
#include <cstdint>

#include "base/error.h"

namespace ztplan {

int devices(const Strategy& s) {
  std::int64_t product = 1;
  for (const int size : {s.tensor, s.context, s.data, s.pipeline}) {
    product = std::min<std::int64_t>(product * size, INT32_MAX);
  }
  return static_cast<int>(product);
}

int micro_batches(const Strategy& s, const Workload& workload) {
  const std::int64_t unit = std::int64_t{s.data} * s.micro_batch;
  require(unit > 0 && workload.global_batch % unit == 0,
          "micro_batches: the global batch divides by data * micro_batch");
  return static_cast<int>(workload.global_batch / unit);
}

int zero_group(const Strategy& s) {
  if (s.zero == 0) return 1;
  return s.shard_group > 0 ? s.shard_group : s.data * s.context;
}

int expert_cut(const Strategy& s) {
  constexpr std::int64_t kMost = INT32_MAX;
  return static_cast<int>(
      std::min(kMost, std::int64_t{s.expert} * s.expert_tensor));
}

int expert_data(const Strategy& s) {
  return std::max(1, s.tensor * s.context * s.data / expert_cut(s));
}

int bytes_of(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return 4;
    case Precision::fp16:
    case Precision::bf16:
      return 2;
    case Precision::fp8:
    case Precision::fp4:
      return 1;
  }
  return 0;
}

bool is_narrow(Precision precision) {
  return precision == Precision::fp8 || precision == Precision::fp4;
}

Precision weight_dtype(Precision precision) {
  return is_narrow(precision) ? Precision::bf16 : precision;
}

}  // namespace ztplan
