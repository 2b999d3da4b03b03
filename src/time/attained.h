// Rates a device attains: the peak its units give a precision, and the memory
// bandwidth of long passes. Prices build on these and on nothing else of it.
#pragma once

#include "base/units.h"
#include "spec/cluster.h"
#include "strategy/strategy.h"
#include "time/price.h"

namespace ztplan {

/// Dense peak at which `device` multiplies `precision`. A device without the
/// units does as libraries do: fp8 as 16 bit, bf16 and fp16 as fp32. fp32 is
/// fp32, not tf32 (PyTorch: torch.backends.cuda.matmul.allow_tf32 is off).
FlopsPerSecond product_peak(const DeviceSpec& device, Precision precision);

/// Whether those are matrix units, which want sizes that are multiples of 8.
bool has_matrix_units(const DeviceSpec& device, Precision precision);

BytesPerSecond attained_memory_bandwidth(const Machine& machine);

}  // namespace ztplan
