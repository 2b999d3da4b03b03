// What a machine attains, beside what its maker promises: shares of peak,
// latencies and passes, each with its origin. Never edits a spec.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/units.h"
#include "spec/cluster.h"

namespace ztplan {

struct MeasuredMachine;  // spec/measured.h

/// A constant with its band: `low` and `high` bound what the source supports.
struct Constant {
  double value = 0, low = 0, high = 0;
  Trust trust = Trust::assumed;
  std::string source;
};

/// What a price is made from: constants and curves that err together.
enum class Input {
  products,
  attention,
  passes,
  launches,
  overlap,
  links,
  network,
  host
};
constexpr int kInputs = 8;

/// Constants for one device. Fields without unit are shares.
struct Calibration {
  std::string name;                // "published", or the file it came from
  Constant matmul_share;           // of peak, what long products sustain
  Constant matmul_burst;           // rate of one tile over the sustained one
  Constant matmul_loaded;          // of a 16-bit rate, under load for seconds
  Constant matmul_k_fill;          // elements of K lost per tile
  Constant matmul_start;           // seconds per product
  Constant unaligned_share;        // of the rate: a size is no multiple of 8
  Constant fp8_share;              // of (fp8 peak / bf16 peak) that is gained
  Constant fp4_share;              // of (fp4 peak / bf16 peak) that is gained
  Constant memory_share;           // of data-sheet memory bandwidth
  Constant stream_start;           // seconds per memory-bound pass
  Constant flash_share;            // of peak, forward, long sequences
  Constant flash_half_sequence;    // tokens at which half of it is reached
  Constant flash_backward_share;   // backward rate over forward rate
  Constant pass_factor;            // bytes of a layer's passes over fused ones
  Constant loss_factor;            // bytes of a logit over 20
  Constant gradient_factor;        // bytes of an fp32 accumulation over 10
  Constant kernel_start;           // host seconds to launch one kernel
  Constant collective_start;       // host seconds to launch one collective
  Constant gather_interference;    // time of compute beside ZeRO 3's gathers
  Constant ring_latency_factor;    // on NCCL's planned latency
  Constant ring_bandwidth_factor;  // on NCCL's planned ring bandwidth
  Constant all_to_all_start;       // seconds, inside a node
  Constant network_share;          // of the NIC rate a ring reaches
  Constant host_adam_bytes;        // bytes per parameter of a CPU Adam step
  Constant host_memory_share;      // of host memory bandwidth it reaches
  Constant transfer_share;         // of the host link pinned copies reach
  Constant nvme_share;             // of the drive's rate

  /// Of this very machine, in the place of the constants where it has a curve.
  std::shared_ptr<const MeasuredMachine> measured = {};
  std::array<double, kInputs> band = {};  // of its curves: -1 fast, 1 slow
  /// Speed of the slowest device over that of the one measured.
  double measured_speed = 1;
};

/// Ranks are threads on the same cores, each of which does one thing at a time.
bool shares_cores(const Calibration& calibration);

/// With what was measured. Of ranks that share cores nothing is launched, and
/// nothing runs beside.
Calibration with_measured(Calibration calibration,
                          std::shared_ptr<const MeasuredMachine> machine);

/// The same constants moved to the fast (`high` shares, `low` times) or slow
/// end of their bands: the price lists behind a predicted interval.
Calibration optimistic(const Calibration& calibration);
Calibration pessimistic(const Calibration& calibration);

/// Of a device that runs at `speed` of the usual one: products, attention and
/// passes take 1 / speed as long. Links and the host are as they were.
Calibration slowed(Calibration calibration, double speed);

/// Lays the constants of a framework's file, then those it has for the device's
/// architecture, over `calibration`.
void overlay_framework(Calibration& calibration, const DeviceSpec& device,
                       const JsonView& framework);

/// Constants for `device` from hardware/calibrations/published.json: those
/// of its id, then of its architecture, then the default ones. Where only the
/// device's best product is known, `matmul_share` follows from it.
Calibration published_calibration(const DeviceSpec& device);

}  // namespace ztplan
