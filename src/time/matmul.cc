// Products by tiles and waves: the sizes decide how many tiles there are, the
// multiprocessors how many run at once, and the best of the library's tile
// shapes counts. Source of the shapes and the fit: docs/decisions.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "time/attained.h"
#include "time/price.h"

namespace ztplan {
namespace {

/// A tile of 2^m x 2^n outputs, and its rate over that of the largest.
struct TileShape {
  int m_log2, n_log2;
  double rate;
};
// Shapes that cuBLAS and CUTLASS offer for 16-bit products; smaller ones reuse
// less of what they load.
constexpr std::array<TileShape, 8> kTileShapes{{{8, 7, 1.00},
                                                {7, 8, 1.00},
                                                {7, 7, 0.95},
                                                {8, 6, 0.95},
                                                {6, 8, 0.95},
                                                {7, 6, 0.85},
                                                {6, 7, 0.85},
                                                {6, 6, 0.60}}};

constexpr double kMultiplyAdd = 2;
constexpr std::int64_t kAlignment = 8;        // elements: 16 bytes of 16 bits
constexpr std::int64_t kFp8Alignment = 16;    // elements: 16 bytes
constexpr std::int64_t kFp4Alignment = 32;    // elements: 16 bytes
constexpr std::int64_t kNarrowestOutput = 2;  // bytes: they give bf16

std::int64_t pieces(std::int64_t size, int log2) {
  return (size + (std::int64_t{1} << log2) - 1) >> log2;
}

/// Multiply-adds of K per tile position that the machine waits for: outputs of
/// all waves, in units of the whole machine, over the shape's rate.
double waited_outputs(const Matmul& work, const TileShape& shape, int units) {
  const double tiles = static_cast<double>(work.batch) *
                       static_cast<double>(pieces(work.m, shape.m_log2) *
                                           pieces(work.n, shape.n_log2));
  const double waves = std::ceil(tiles / units);
  const double outputs = 1 << (shape.m_log2 + shape.n_log2);
  return waves * units * outputs / shape.rate;
}

double fewest_waited_outputs(const Matmul& work, int units) {
  double fewest = std::numeric_limits<double>::infinity();
  for (const TileShape& shape : kTileShapes)
    fewest = std::min(fewest, waited_outputs(work, shape, units));
  return fewest;
}

/// Bytes of A, B and C, each moved once.
Bytes touched(const Matmul& work) {
  const std::int64_t width = bytes_of(work.precision);
  const std::int64_t in = width * (work.m * work.k + work.k * work.n);
  const std::int64_t out = std::max(width, kNarrowestOutput) * work.m * work.n;
  const bool is_half = work.precision == Precision::fp4;
  return {work.batch * ((is_half ? in / 2 : in) + out)};
}

std::int64_t alignment(Precision precision) {
  if (precision == Precision::fp4) return kFp4Alignment;
  return precision == Precision::fp8 ? kFp8Alignment : kAlignment;
}

bool is_aligned(const Matmul& work) {
  const std::int64_t unit = alignment(work.precision);
  return work.m % unit == 0 && work.n % unit == 0 && work.k % unit == 0;
}

bool is_fp4(const Matmul& work, const DeviceSpec& device) {
  return work.precision == Precision::fp4 && device.fp4.value > 0;
}

/// Whether units of fewer than 16 bits run it.
bool runs_narrow(const Matmul& work, const DeviceSpec& device) {
  return is_fp4(work, device) ||
         (is_narrow(work.precision) && device.fp8.value > 0);
}

/// A tile's start and its 16-bit epilogue take their time however fast K runs:
/// in elements of K, as many more as the units are faster than 16-bit ones.
double fill_of(const Matmul& work, const DeviceSpec& device) {
  return runs_narrow(work, device) ? product_peak(device, work.precision) /
                                         product_peak(device, Precision::bf16)
                                   : 1;
}

/// What long products sustain at this precision and alignment.
FlopsPerSecond sustained_rate(const Matmul& work, const Machine& machine) {
  const DeviceSpec& device = machine.cluster.device;
  const Calibration& calibration = machine.calibration;
  double share = calibration.matmul_share.value;
  if (runs_narrow(work, device))
    share *= is_fp4(work, device) ? calibration.fp4_share.value
                                  : calibration.fp8_share.value;
  else if (has_matrix_units(device, work.precision))
    share *= calibration.matmul_loaded.value;
  if (has_matrix_units(device, work.precision) && !is_aligned(work))
    share *= calibration.unaligned_share.value;
  return product_peak(device, work.precision) * share;
}

}  // namespace

/// start + the longest of: the tiles in waves at full clock, all operations at
/// the rate the power limit leaves, all bytes at memory bandwidth.
Seconds assumed_price(const Matmul& work, const Machine& machine) {
  const Calibration& calibration = machine.calibration;
  const FlopsPerSecond sustained = sustained_rate(work, machine);
  const FlopsPerSecond burst = sustained * calibration.matmul_burst.value;
  const double fill =
      calibration.matmul_k_fill.value * fill_of(work, machine.cluster.device);
  const double depth = static_cast<double>(work.k) + fill;
  const int units = std::max(1, machine.cluster.device.sm_count);
  const Flops waited{kMultiplyAdd * depth * fewest_waited_outputs(work, units)};
  return Seconds{calibration.matmul_start.value} +
         std::max({waited / burst, flops(work) / sustained,
                   touched(work) / attained_memory_bandwidth(machine)});
}

}  // namespace ztplan
