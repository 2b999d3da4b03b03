#include "exec/rank_sum.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "calibrate/kernels/element.h"

namespace ztplan {
namespace {

constexpr std::int64_t kBlock = 1024;  // elements; 4 KiB stay in a first cache

/// A NaN on either side stays.
float larger(float a, float b) { return b > a || std::isnan(b) ? b : a; }

void join(Reduction how, const float* more, std::int64_t size, float* result) {
  if (how == Reduction::sum) {
    for (std::int64_t i = 0; i < size; ++i) result[i] += more[i];
  } else {
    for (std::int64_t i = 0; i < size; ++i)
      result[i] = larger(result[i], more[i]);
  }
}

}  // namespace

void combine(Reduction how, Precision dtype, std::int64_t elements,
             std::span<const std::byte* const> from,
             std::span<std::byte* const> to) {
  require(dtype != Precision::fp8, "ranks do not add in fp8");
  float result[kBlock], more[kBlock];
  for (std::int64_t done = 0; done < elements; done += kBlock) {
    const std::int64_t size = std::min(kBlock, elements - done);
    const std::int64_t at = done * bytes_of(dtype);
    kernels::widen(from.front() + at, dtype, size, result);
    for (const std::byte* rank : from.subspan(1)) {
      kernels::widen(rank + at, dtype, size, more);
      join(how, more, size, result);
    }
    for (std::byte* rank : to) kernels::narrow(result, dtype, size, rank + at);
  }
}

}  // namespace ztplan
