#include "interop/run_strategy.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "interop/run_cells.h"
#include "interop/run_machine.h"
#include "strategy/recomputed.h"
#include "strategy/stages.h"

namespace ztplan {
namespace {

constexpr int kMostSequence = 4 * 1024 * 1024;
constexpr int kMostBatch = 10'000'000;

int size_cell(const CsvRow& row, std::string_view column) {
  return std::max(1, whole_cell(row, column, kMostRunDevices).value_or(1));
}

Offload offload_of(const CsvRow& row) {
  const std::string text = folded(row.get("offload"));
  if (text.empty() || text == "none") return {};
  if (says(text, "activations") || says(text, "gradients") ||
      says(text, "quants")) {
    throw Skip("activations or gradients are offloaded");
  }
  if (says(text, "%") && !says(text, "100%")) {
    throw Skip("a part of the optimizer is offloaded");
  }
  Offload offload;
  if (says(text, "optimizer-cpu")) offload.optimizer = OffloadTier::cpu;
  if (says(text, "params-cpu")) offload.parameters = OffloadTier::cpu;
  return offload;
}

// What other sources than Megatron-LM call a part of a layer.
struct OtherName {
  std::string_view name;
  bool Recompute::*flag;
};
constexpr OtherName kOtherNames[] = {{"att", &Recompute::attention},
                                     {"norm", &Recompute::norms},
                                     {"swiglu", &Recompute::activation}};

// Whether the name of a recomputed module is known.
bool add_module(std::string_view module, Recompute& recompute) {
  for (const OtherName& other : kOtherNames) {
    if (module != other.name) continue;
    return recompute.*other.flag = true;
  }
  for (const RecomputedPart& part : kRecomputedParts) {
    if (module != part.megatron && module != part.text) continue;
    return recompute.*part.flag = true;
  }
  return false;
}

Recompute selective_of(std::string_view modules) {
  Recompute recompute{.mode = Recompute::Mode::selective};
  while (!modules.empty()) {
    const std::size_t end = std::min(modules.find(','), modules.size());
    if (!add_module(modules.substr(0, end), recompute)) {
      throw Skip("what is recomputed cannot be said yet");
    }
    modules.remove_prefix(std::min(end + 1, modules.size()));
  }
  return recompute;
}

Recompute recompute_of(const CsvRow& row, int stage_layers,
                       std::string_view missing) {
  std::string text = folded(row.get("recompute"));
  if (text.empty()) text = missing;
  if (text.empty() || text == "none") return {};
  if (text == "full") return {.mode = Recompute::Mode::full};
  if (text == "selective") return selective_of("core_attn");
  if (text == "selective:op-level")
    return {.mode = Recompute::Mode::selective, .op = true};
  if (text == "selective:every-2nd-layer") {
    return {.mode = Recompute::Mode::full,
            .layers = std::max(1, stage_layers / 2)};
  }
  constexpr std::string_view kSelective = "selective:";
  if (!text.starts_with(kSelective)) {
    throw Skip("what is recomputed cannot be said yet");
  }
  return selective_of(std::string_view(text).substr(kSelective.size()));
}

int zero_of(const CsvRow& row) {
  constexpr int kHighest = 3;
  if (const auto zero = whole_cell(row, "zero_stage", kHighest)) return *zero;
  const std::string flavour = folded(row.get("fsdp"));
  const bool is_sharded =
      !flavour.empty() && flavour != "0" && flavour != "none";
  return is_sharded ? kHighest : 0;
}

// "FSDP2 64": the ranks that share states, when they are not all.
int shard_of(const CsvRow& row, const Strategy& s) {
  const std::string flavour = folded(row.get("fsdp"));
  int group = 0;
  if (flavour == "hsdp") {
    group = whole_cell(row, "gpus_per_node", kMostRunDevices).value_or(0);
  }
  const std::size_t blank = flavour.find(' ');
  for (std::size_t i = blank; i < flavour.size(); ++i) {
    if (flavour[i] < '0' || flavour[i] > '9') continue;
    group = std::min(group * 10 + (flavour[i] - '0'), kMostRunDevices);
  }
  return group < s.data * s.context ? group : 0;
}

int data_left(const CsvRow& row, const Strategy& s) {
  const auto gpus = whole_cell(row, "gpus", kMostRunDevices);
  if (!gpus || *gpus == 0) throw Skip("the number of GPUs is not stated");
  const std::int64_t unit = std::int64_t{s.tensor} * s.pipeline * s.context;
  if (*gpus % unit != 0) throw Skip("tp*pp*cp does not divide the GPUs");
  const int data = static_cast<int>(*gpus / unit);
  const auto stated = whole_cell(row, "dp", kMostRunDevices);
  if (stated && *stated != 0 && *stated != data) {
    throw Skip("tp*pp*dp*cp is not the number of GPUs");
  }
  return data;
}

// As even as can be, the ends with fewer: they hold embedding and loss too.
std::vector<int> uneven_stages(int layers, int stages) {
  std::vector<int> counts(static_cast<std::size_t>(stages), layers / stages);
  const int left = layers % stages;
  const int first = (stages - left) / 2;
  for (int i = first; i < first + left; ++i)
    ++counts[static_cast<std::size_t>(i)];
  return counts;
}

// Chunks of equal size but for the last, as recipes of DeepSeek-V3, Kimi K2 and
// Moonlight state: NVIDIA-NeMo/Megatron-Bridge, recipes (map_pp_vp_to_layout).
std::vector<int> filled_chunks(int layers, int chunks) {
  const int each = (layers + chunks - 1) / chunks;
  std::vector<int> counts;
  counts.reserve(static_cast<std::size_t>(chunks));
  for (int i = 0; i < chunks; ++i) {
    counts.push_back(std::min(each, layers));
    layers -= counts.back();
  }
  return counts;
}

// Sources do not say how layers that do not divide were cut: first as if the
// ends were layers (BLOOM, Llama 3), else as those recipes, else one layer more
// in the middle stages.
void cut_stages(const CsvRow& row, Strategy& s, int layers) {
  if (layers_divide(layers, s)) return;
  s.ends_as_layers = true;
  if (layers_divide(layers, s)) return;
  s.ends_as_layers = false;
  const int chunks = s.pipeline * s.virtual_stages;
  if (layers < chunks) return;
  s.stage_layers = is_of_megatron_bridge(row) || s.virtual_stages > 1
                       ? filled_chunks(layers, chunks)
                       : uneven_stages(layers, chunks);
}

void set_schedule(Strategy& s) {
  s.schedule =
      s.virtual_stages > 1 ? Schedule::interleaved : Schedule::one_f_one_b;
}

/// torchtitan states the batch of a rank, which its pipelines of 2024 cut into
/// as many micro-batches as they have stages (--experimental.
/// pipeline_parallel_microbatches); interleaved ones have two chunks or more.
void cut_local_batch(const CsvRow& row, Strategy& s) {
  if (row.get("source") != "torchtitan" || s.pipeline == 1) return;
  s.micro_batch = std::max(1, s.micro_batch / s.pipeline);
  if (s.virtual_stages == 1 && notes_say(row, "interleaved"))
    ++s.virtual_stages;
}

Precision precision_of(const CsvRow& row) {
  const std::string text = folded(row.get("precision"));
  if (text.empty()) return Precision::bf16;
  if (says(text, "base")) return Precision::bf16;  // of frozen weights
  if (says(text, "fp4")) return Precision::fp4;
  if (says(text, "fp8")) return Precision::fp8;
  if (text == "bf16") return Precision::bf16;
  if (text == "fp16") return Precision::fp16;
  if (text == "fp32") return Precision::fp32;
  throw Skip("its precision is not known");
}

AttentionKernel attention_of(const CsvRow& row, AttentionKernel missing) {
  const std::string text = folded(row.get("attention"));
  if (text.empty()) return missing;
  const bool eager = text == "eager" || text == "unfused";
  return eager ? AttentionKernel::eager : AttentionKernel::flash;
}

/// As its notes give it; of a Megatron-LM run whose arguments leave it out, the
/// default: tensor. Source: megatron/core/model_parallel_config.py.
int expert_tensor_of(const CsvRow& row, const Strategy& s) {
  if (!noted_number(row, "experts ")) return 1;
  const bool left_out = notes_say(row, "etp dispatcher");
  return noted_number(row, "etp ").value_or(left_out ? s.tensor : 1);
}

}  // namespace

Strategy strategy_of_run(const CsvRow& row, int layers,
                         std::string_view recompute) {
  Strategy s;
  s.tensor = size_cell(row, "tp");
  s.pipeline = size_cell(row, "pp");
  s.virtual_stages = s.pipeline > 1 ? size_cell(row, "vpp") : 1;
  s.context = size_cell(row, "cp");
  s.expert = size_cell(row, "ep");
  s.expert_tensor = expert_tensor_of(row, s);
  s.data = data_left(row, s);
  s.sequence_parallel =
      s.tensor > 1 && whole_cell(row, "sp", 1).value_or(1) == 1;
  s.zero = zero_of(row);
  if (s.zero == 2 && s.pipeline > 1) s.zero = 1;
  s.offload = offload_of(row);
  s.recompute = recompute_of(row, layers / s.pipeline, recompute);
  s.micro_batch = size_cell(row, "micro_batch");
  cut_local_batch(row, s);
  s.shard_group = s.zero > 0 ? shard_of(row, s) : 0;
  set_schedule(s);
  cut_stages(row, s, layers);
  return s;
}

Workload workload_of_run(const CsvRow& row, const Strategy& strategy,
                         int sequence, AttentionKernel attention) {
  Workload workload;
  workload.sequence = whole_cell(row, "seq", kMostSequence).value_or(sequence);
  if (workload.sequence == 0) throw Skip("the sequence is not stated");
  const std::int64_t least = std::int64_t{strategy.data} * strategy.micro_batch;
  if (least > kMostBatch) throw Skip("the batch is absurd");
  workload.global_batch = whole_cell(row, "global_batch", kMostBatch)
                              .value_or(static_cast<int>(least));
  if (workload.global_batch == 0) throw Skip("the batch is not stated");
  workload.precision = precision_of(row);
  workload.attention = attention_of(row, attention);
  return workload;
}

}  // namespace ztplan
