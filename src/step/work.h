// The atoms of a step. Each knows its flops and bytes, never a time.
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "base/units.h"
#include "strategy/layout.h"
#include "strategy/strategy.h"

namespace ztplan {

/// C[m, n] (+)= A[m, k] B[k, n], `batch` times side by side.
struct Matmul {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t batch = 1;
  Precision precision = Precision::bf16;
  auto operator<=>(const Matmul&) const = default;
};

enum class Direction { forward, backward };

/// softmax(Q K^T) V over `queries` x `keys` tokens of each of `sequences`.
struct AttentionWork {
  std::int64_t sequences = 0;
  std::int64_t queries = 0, keys = 0;  // tokens of one sequence
  int heads = 0, kv_heads = 0;         // on this device
  int qk_size = 0, v_size = 0;         // of a head
  int window = 0;                      // keys a query sees; 0: all
  bool causal = true;
  Direction direction = Direction::forward;
  AttentionKernel kernel = AttentionKernel::flash;
  bool skips_mask = true;  // a fused kernel leaves out what `causal` hides
  Precision precision = Precision::bf16;  // of what is stored
  auto operator<=>(const AttentionWork&) const = default;
};

/// What a memory-bound pass computes: a device without units to spare takes
/// longer for some than their bytes do.
enum class Operation {
  copy,
  norm,
  norm_backward,
  residual,
  dropout,
  rotary,
  activation,
  activation_backward,
  gated,
  gated_backward,
  dispatch,
  embedding,
  embedding_backward,
  loss,
  loss_backward,
  accumulate,
  square_sum,
  optimizer
};
constexpr int kOperations = 18;
std::string_view to_text(Operation operation);
/// Bytes per 16-bit element that one fused kernel reads and writes; 0 where
/// they depend on more than that.
int fused_bytes(Operation operation);

/// Bytes that fused kernels read and write, of `precision` numbers. A framework
/// that fuses less reads and writes more in the passes of a layer, of the loss
/// or of an accumulation in fp32.
enum class PassKind { fixed, layer, loss, gradient };
struct Stream {
  Bytes bytes;
  PassKind kind = PassKind::fixed;
  Operation operation = Operation::copy;
  Precision precision = Precision::bf16;
  auto operator<=>(const Stream&) const = default;
};

enum class CollectiveOp {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  send_receive
};

/// As NCCL plans today; rings alone, as it chose for long messages before 2.12;
/// rings of which all groups of a node share one NIC.
enum class Rings { planned, only, one_nic };

/// `bytes` is the large buffer, [size * shard], as NCCL counts; for
/// all_to_all what one rank holds; for send_receive the message.
struct Collective {
  CollectiveOp op = CollectiveOp::all_reduce;
  Group group;
  Bytes bytes;
  Rings rings = Rings::planned;
  auto operator<=>(const Collective&) const = default;
};

enum class Channel { host_to_device, device_to_host, nvme_read, nvme_write };

/// A copy of one device's bytes between tiers, all devices of a node at once.
struct Transfer {
  Channel channel = Channel::host_to_device;
  Bytes bytes;
  auto operator<=>(const Transfer&) const = default;
};

/// Adam on the host over this many parameters of one device.
struct HostAdam {
  std::int64_t parameters = 0;
  auto operator<=>(const HostAdam&) const = default;
};

using Work =
    std::variant<Matmul, AttentionWork, Stream, Collective, Transfer, HostAdam>;

/// Operations of one work; 0 for what moves bytes only. A masked half that a
/// flash kernel skips is not counted.
Flops flops(const Work& work);

/// Scores the kernel computes, [sequences, heads, queries, keys] less what it
/// skips: a flash kernel skips what the causal mask or the window hides, an
/// eager one nothing. With fewer queries than keys (context parallel) a causal
/// mask is taken to hide the same share from each rank, as balanced chunks do.
double computed_scores(const AttentionWork& work);

/// Bytes one rank sends for this collective: the ring's minimum, e.g.
/// 2(n-1)/n of the buffer for an all-reduce.
Bytes sent_bytes(const Collective& collective);

}  // namespace ztplan
