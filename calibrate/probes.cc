#include "calibrate/probes.h"

#include "calibrate/rehearsal.h"

namespace ztplan {
namespace {

using Sizes = std::vector<std::int64_t>;

constexpr Precision kPrecisions[] = {Precision::fp32, Precision::bf16,
                                     Precision::fp16};

/// From `first` on in steps of `factor`.
Sizes powers(std::int64_t first, std::int64_t factor, std::int64_t last) {
  Sizes sizes;
  for (std::int64_t size = first; size <= last; size *= factor)
    sizes.push_back(size);
  return sizes;
}

/// Tokens by widths in and out: square layers, those that widen four times and
/// back, and narrow ones as tensor parallelism makes them.
void add_products(Thoroughness how, std::vector<Work>& works) {
  const bool quick = how == Thoroughness::quick;
  const Sizes tokens = quick ? Sizes{32, 256} : Sizes{32, 128, 512};
  const Sizes widths = quick ? Sizes{64, 256} : Sizes{32, 128, 512};
  for (const Precision precision : kPrecisions)
    for (const std::int64_t m : tokens)
      for (const std::int64_t width : widths) {
        works.emplace_back(Matmul{m, width, width, 1, precision});
        works.emplace_back(Matmul{m, 4 * width, width, 1, precision});
        works.emplace_back(Matmul{m, width, 4 * width, 1, precision});
      }
}

void add_attention(Thoroughness how, std::vector<Work>& works) {
  const bool quick = how == Thoroughness::quick;
  const Sizes lengths = quick ? Sizes{32, 256} : Sizes{32, 64, 128, 256, 512};
  for (const Precision precision : kPrecisions)
    for (const AttentionKernel kernel :
         {AttentionKernel::flash, AttentionKernel::eager})
      for (const Direction direction :
           {Direction::forward, Direction::backward})
        for (const std::int64_t length : lengths)
          for (const int size : {16, 32, 64}) {
            AttentionWork work;
            work.sequences = 2;
            work.queries = work.keys = length;
            work.heads = work.kv_heads = 4;
            work.qk_size = work.v_size = size;
            work.direction = direction;
            work.kernel = kernel;
            work.precision = precision;
            works.emplace_back(work);
          }
}

void add_passes(Thoroughness how, std::vector<Work>& works) {
  const std::int64_t most = how == Thoroughness::quick ? kMiB : 16 * kMiB;
  for (int i = 0; i < kOperations; ++i) {
    const auto operation = static_cast<Operation>(i);
    if (!can_rehearse(operation)) continue;
    for (const Precision precision : kPrecisions)
      for (const std::int64_t bytes : powers(16 * kKiB, 4, most))
        works.emplace_back(
            Stream{Bytes{bytes}, PassKind::fixed, operation, precision});
  }
}

void add_host(Thoroughness how, std::vector<Work>& works) {
  const std::int64_t most = how == Thoroughness::quick ? 4 * kMiB : 64 * kMiB;
  for (const Channel channel :
       {Channel::host_to_device, Channel::device_to_host, Channel::nvme_read,
        Channel::nvme_write})
    for (const std::int64_t bytes : powers(16 * kKiB, 4, most))
      works.emplace_back(Transfer{channel, Bytes{bytes}});
  for (const std::int64_t parameters : powers(kKiB, 8, most / 16))
    works.emplace_back(HostAdam{parameters});
}

void add_collectives(Thoroughness how, int ranks, std::vector<Work>& works) {
  const std::int64_t most = how == Thoroughness::quick ? kMiB : 64 * kMiB;
  for (const CollectiveOp op :
       {CollectiveOp::all_reduce, CollectiveOp::all_gather,
        CollectiveOp::reduce_scatter, CollectiveOp::all_to_all,
        CollectiveOp::send_receive})
    for (int size = 2; size <= ranks; size *= 2) {
      if (op == CollectiveOp::send_receive && size > 2) break;
      // A number for each rank, and so on.
      for (const std::int64_t bytes : powers(4L * size, 8, most))
        works.emplace_back(Collective{op, {size, 1}, Bytes{bytes}});
    }
}

}  // namespace

std::vector<Work> probes(Thoroughness how, int ranks) {
  std::vector<Work> works;
  add_products(how, works);
  add_attention(how, works);
  add_passes(how, works);
  add_host(how, works);
  add_collectives(how, ranks, works);
  return works;
}

}  // namespace ztplan
