#include "time/attained.h"

namespace ztplan {
namespace {

/// The units that really run it.
Precision runs_as(const DeviceSpec& device, Precision precision) {
  if (precision == Precision::fp4 && device.fp4.value <= 0)
    precision = Precision::fp8;
  if (precision == Precision::fp8 && device.fp8.value <= 0)
    precision = Precision::bf16;
  if (precision == Precision::bf16 && device.bf16.value <= 0)
    return Precision::fp32;
  if (precision == Precision::fp16 && device.fp16.value <= 0)
    return Precision::fp32;
  return precision;
}

}  // namespace

FlopsPerSecond product_peak(const DeviceSpec& device, Precision precision) {
  switch (runs_as(device, precision)) {
    case Precision::fp4:
      return device.fp4;
    case Precision::fp8:
      return device.fp8;
    case Precision::bf16:
      return device.bf16;
    case Precision::fp16:
      return device.fp16;
    case Precision::fp32:
      break;
  }
  return device.fp32;
}

bool has_matrix_units(const DeviceSpec& device, Precision precision) {
  return runs_as(device, precision) != Precision::fp32;
}

BytesPerSecond attained_memory_bandwidth(const Machine& machine) {
  return machine.cluster.device.memory_bandwidth *
         machine.calibration.memory_share.value;
}

}  // namespace ztplan
