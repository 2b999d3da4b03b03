// The core of attention: softmax(Q K^T) V, in one kernel or in several.
#include <algorithm>
#include <cstdint>

#include "time/attained.h"
#include "time/price.h"

namespace ztplan {
namespace {

// Rows of queries one thread block takes. Source: FlashAttention-2, section
// 3.3; cuDNN and FlashAttention-3 use 128 or 192.
constexpr std::int64_t kQueryBlock = 128;

// A head of 64 or less does not fill the matrix units: it costs 15 to 30 %.
// Source: FlashAttention-2 (arXiv 2307.08691), figures 5 to 7.
constexpr int kFullHead = 128, kSmallHead = 64;
constexpr double kSmallHeadShare = 0.78;

// Bytes an unfused kernel moves per score: softmax with mask and scale, then
// dropout. Source: arXiv 2205.05198, section 4.1, for what is kept (2 + 2 + 1);
// reads and writes counted alike.
constexpr std::int64_t kSoftmaxForward = 4, kDropoutForward = 5;
constexpr std::int64_t kSoftmaxBackward = 6, kDropoutBackward = 5;

double head_share(const AttentionWork& work) {
  const int size =
      std::clamp(std::max(work.qk_size, work.v_size), kSmallHead, kFullHead);
  const double filled = static_cast<double>(size - kSmallHead) /
                        static_cast<double>(kFullHead - kSmallHead);
  return kSmallHeadShare + (1 - kSmallHeadShare) * filled;
}

/// Share of the device that works on what was asked: the last block of queries
/// is padded, and few heads and sequences leave multiprocessors idle.
double busy_share(const AttentionWork& work, const DeviceSpec& device) {
  const std::int64_t blocks = divide_up(work.queries, kQueryBlock);
  const double filled = static_cast<double>(work.queries) /
                        static_cast<double>(blocks * kQueryBlock);
  const double tasks =
      static_cast<double>(work.sequences * work.heads * blocks);
  return filled * std::min(1.0, tasks / std::max(1, device.sm_count));
}

/// Long rows of keys amortise the start of a block and its masked edge.
double length_share(const AttentionWork& work, const Calibration& calibration) {
  const std::int64_t seen = work.window > 0
                                ? std::min<std::int64_t>(work.window, work.keys)
                                : work.keys;
  const double length = static_cast<double>(seen);
  return length / (length + calibration.flash_half_sequence.value);
}

FlopsPerSecond attention_peak(const DeviceSpec& device) {
  return std::max(product_peak(device, Precision::bf16),
                  product_peak(device, Precision::fp16));
}

Seconds price_flash(const AttentionWork& work, const Machine& machine) {
  const Calibration& calibration = machine.calibration;
  const DeviceSpec& device = machine.cluster.device;
  const double direction = work.direction == Direction::backward
                               ? calibration.flash_backward_share.value
                               : 1;
  const FlopsPerSecond rate = attention_peak(device) *
                              calibration.flash_share.value * direction *
                              length_share(work, calibration) *
                              head_share(work) * busy_share(work, device);
  return Seconds{calibration.matmul_start.value} + flops(work) / rate;
}

/// One of the products around the scores, batched over sequences and heads.
Seconds price_product(const AttentionWork& work, const Machine& machine,
                      std::int64_t m, std::int64_t n, std::int64_t k) {
  return assumed_price(Matmul{.m = m,
                              .n = n,
                              .k = k,
                              .batch = work.sequences * work.heads,
                              .precision = Precision::fp16},
                       machine);
}

Seconds price_score_passes(const AttentionWork& work, const Machine& machine,
                           std::int64_t softmax, std::int64_t dropout) {
  const std::int64_t scores =
      work.sequences * work.heads * work.queries * work.keys;
  return assumed_price(Stream{Bytes{scores * softmax}}, machine) +
         assumed_price(Stream{Bytes{scores * dropout}}, machine);
}

Seconds price_eager_forward(const AttentionWork& work, const Machine& machine) {
  return price_product(work, machine, work.queries, work.keys, work.qk_size) +
         price_product(work, machine, work.queries, work.v_size, work.keys) +
         price_score_passes(work, machine, kSoftmaxForward, kDropoutForward);
}

Seconds price_eager_backward(const AttentionWork& work,
                             const Machine& machine) {
  const Seconds d_value =
      price_product(work, machine, work.keys, work.v_size, work.queries);
  const Seconds d_score =
      price_product(work, machine, work.queries, work.keys, work.v_size);
  const Seconds d_query =
      price_product(work, machine, work.queries, work.qk_size, work.keys);
  const Seconds d_key =
      price_product(work, machine, work.keys, work.qk_size, work.queries);
  return d_value + d_score + d_query + d_key +
         price_score_passes(work, machine, kSoftmaxBackward, kDropoutBackward);
}

}  // namespace

Seconds assumed_price(const AttentionWork& work, const Machine& machine) {
  if (work.kernel != AttentionKernel::eager) return price_flash(work, machine);
  return work.direction == Direction::forward
             ? price_eager_forward(work, machine)
             : price_eager_backward(work, machine);
}

}  // namespace ztplan
