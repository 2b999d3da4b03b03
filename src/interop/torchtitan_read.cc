// Reads torchtitan's TOML by its typed parser's rules: unknown keys are
// refused. Source: pytorch/torchtitan v0.2.2, torchtitan/config.
#include <fmt/format.h>

#include <sstream>
#include <string_view>
#include <toml.hpp>
#include <utility>

#include "base/error.h"
#include "base/quote.h"
#include "interop/findings.h"
#include "interop/sharding.h"
#include "interop/torchtitan.h"
#include "strategy/schedule.h"

namespace ztplan {
namespace {

constexpr const char* kJobConfig =
    "pytorch/torchtitan torchtitan/config/job_config.py";
constexpr UnknownKey kRefused{Severity::refused,
                              "is refused by the typed parser", kJobConfig};

constexpr std::string_view kSections[] = {"job",
                                          "model",
                                          "optimizer",
                                          "lr_scheduler",
                                          "training",
                                          "parallelism",
                                          "activation_checkpoint",
                                          "compile",
                                          "quantize",
                                          "checkpoint",
                                          "comm",
                                          "profiling",
                                          "metrics",
                                          "validation",
                                          "memory_estimation",
                                          "fault_tolerance",
                                          "debug",
                                          "experimental"};
constexpr std::string_view kTraining[] = {"local_batch_size",
                                          "global_batch_size",
                                          "seq_len",
                                          "max_norm",
                                          "steps",
                                          "dtype",
                                          "mixed_precision_param",
                                          "mixed_precision_reduce",
                                          "enable_cpu_offload",
                                          "dataset",
                                          "dataset_path",
                                          "gc_freq",
                                          "gc_debug",
                                          "seed",
                                          "deterministic"};
constexpr std::string_view kParallelism[] = {
    "data_parallel_replicate_degree",
    "data_parallel_shard_degree",
    "fsdp_reshard_after_forward",
    "tensor_parallel_degree",
    "disable_loss_parallel",
    "enable_async_tensor_parallel",
    "pipeline_parallel_degree",
    "pipeline_parallel_schedule",
    "pipeline_parallel_schedule_csv",
    "pipeline_parallel_layers_per_stage",
    "pipeline_parallel_first_stage_less_layers",
    "pipeline_parallel_last_stage_less_layers",
    "pipeline_parallel_microbatch_size",
    "pipeline_parallel_split_points",
    "module_fqns_per_model_part",
    "context_parallel_degree",
    "context_parallel_rotate_method",
    "context_parallel_load_balancer",
    "expert_parallel_degree",
    "expert_tensor_parallel_degree",
    "expert_parallel_comm_backend"};
constexpr std::string_view kCheckpointing[] = {
    "mode",
    "selective_ac_option",
    "memory_budget",
    "per_op_sac_force_recompute_mm_shapes_by_fqns",
    "early_stop",
    "visualize_memory_budget_pareto",
    "preserve_rng_state",
    "determinism_check",
    "debug"};

class Reader : private Reading {
 public:
  Reader(const toml::value& root, std::string_view path, const Given& given)
      : Reading("fsdp", given), root_(root), path_(path) {}

  Configuration read() && {
    check_keys();
    read_grid();
    read_training();
    read_checkpointing();
    c_.optimizer = OptimizerKind::adam;
    c_.attention = AttentionKernel::flash;
    c_.unsaid = {"model", "attention"};
    return std::move(c_);
  }

 private:
  void check_keys() {
    check("", root_, kSections);
    check("training", section("training"), kTraining);
    check("parallelism", section("parallelism"), kParallelism);
    check("activation_checkpoint", section("activation_checkpoint"),
          kCheckpointing);
  }

  void check(std::string_view name, const toml::value& table,
             std::span<const std::string_view> known) {
    if (!table.is_table()) return;
    std::vector<std::string> keys;
    for (const auto& [key, value] : table.as_table()) keys.push_back(key);
    std::ranges::sort(keys);
    find_unknown(keys, name, known, kRefused, c_.findings);
  }

  const toml::value& section(const std::string& name) const {
    static const toml::value none = toml::table();
    if (!root_.is_table() || !root_.contains(name)) return none;
    const toml::value& found = root_.at(name);
    if (found.is_table()) return found;
    throw Error(fmt::format("{}: {} must be a table", path_, name));
  }

  int whole(const std::string& table, const std::string& key, int missing) {
    const toml::value& in = section(table);
    if (!in.contains(key)) return missing;
    const toml::value& value = in.at(key);
    constexpr std::int64_t kMost = 100'000'000;
    const bool fits = value.is_integer() && value.as_integer() >= -1 &&
                      value.as_integer() <= kMost;
    if (fits) return static_cast<int>(value.as_integer());
    throw Error(
        fmt::format("{}: {}.{} must be a whole number", path_, table, key));
  }

  int size(const std::string& key, int missing) {
    const int value = whole("parallelism", key, missing);
    if (value >= 1 && value <= kMaxSize) return value;
    throw Error(fmt::format("{}: parallelism.{} must be from 1 to {}, not {}",
                            path_, key, kMaxSize, value));
  }

  std::string word(const std::string& table, const std::string& key,
                   const char* missing) {
    const toml::value& in = section(table);
    if (!in.contains(key)) return missing;
    if (in.at(key).is_string()) return in.at(key).as_string().str;
    throw Error(fmt::format("{}: {}.{} must be a text", path_, table, key));
  }

  bool truth(const std::string& table, const std::string& key) {
    const toml::value& in = section(table);
    if (!in.contains(key)) return false;
    if (in.at(key).is_boolean()) return in.at(key).as_boolean();
    throw Error(
        fmt::format("{}: {}.{} must be true or false", path_, table, key));
  }

  Precision dtype(const std::string& key, const char* missing) {
    const std::string text = word("training", key, missing);
    if (text == "float32") return Precision::fp32;
    if (text == "float16") return Precision::fp16;
    if (text == "bfloat16") return Precision::bf16;
    throw Error(
        fmt::format("{}: training.{} must be float32, float16 or "
                    "bfloat16, not {}",
                    path_, key, quote(text)));
  }

  void read_grid() {
    Strategy& s = c_.strategy;
    s.tensor = size("tensor_parallel_degree", 1);
    s.sequence_parallel = s.tensor > 1;  // torchtitan always cuts it too
    s.pipeline = size("pipeline_parallel_degree", 1);
    s.context = size("context_parallel_degree", 1);
    s.expert = size("expert_parallel_degree", 1);
    Mesh mesh{size("data_parallel_replicate_degree", 1),
              whole("parallelism", "data_parallel_shard_degree", -1)};
    if (mesh.shard < 1)
      mesh.shard = std::max(1, ranks_left(given_.gpus, s) / mesh.replicate);
    set_mesh(
        mesh,
        word("parallelism", "fsdp_reshard_after_forward", "default") != "never",
        s);
    read_pipeline();
  }

  void read_schedule(const std::string& name) {
    constexpr std::pair<std::string_view, Schedule> kSchedules[] = {
        {"1F1B", Schedule::one_f_one_b},
        {"GPipe", Schedule::gpipe},
        {"Interleaved1F1B", Schedule::interleaved},
        {"InterleavedZeroBubble", Schedule::zb_h1},
        {"ZBVZeroBubble", Schedule::zb_v},
        {"DualPipeV", Schedule::dualpipe_v}};
    for (const auto& known : kSchedules) {
      if (known.first != name) continue;
      c_.strategy.schedule = known.second;
      return;
    }
    find(Severity::advice, "schedule-not-counted",
         "parallelism.pipeline_parallel_schedule",
         fmt::format("{} is timed as 1F1B", quote(name)),
         "1F1B, GPipe, Interleaved1F1B, InterleavedZeroBubble, ZBVZeroBubble "
         "or DualPipeV",
         "pytorch/pytorch torch/distributed/pipelining/schedules.py");
  }

  void read_pipeline() {
    Strategy& s = c_.strategy;
    if (s.pipeline == 1) return;
    const std::string name =
        word("parallelism", "pipeline_parallel_schedule", "1F1B");
    read_schedule(name);
    const int first =
        whole("parallelism", "pipeline_parallel_first_stage_less_layers", 1);
    const int last =
        whole("parallelism", "pipeline_parallel_last_stage_less_layers", 1);
    s.ends_as_layers = first == 1 && last == 1;
    const int each =
        whole("parallelism", "pipeline_parallel_layers_per_stage", 0);
    if (each > 0 && given_.model != nullptr) {
      const int layers = layer_count(*given_.model) + first + last;
      s.virtual_stages =
          std::max(1, static_cast<int>(divide_up(layers, each)) / s.pipeline);
    } else if (sends_beside(s.schedule)) {
      s.virtual_stages = 2;  // the least they run with
    }
    s.micro_batch = std::max(
        1, whole("parallelism", "pipeline_parallel_microbatch_size", 1));
  }

  void read_training() {
    Strategy& s = c_.strategy;
    const int local = whole("training", "local_batch_size", 8);
    if (local < 1)
      throw Error(fmt::format(
          "{}: training.local_batch_size must be at least 1", path_));
    if (s.pipeline == 1) s.micro_batch = local;
    c_.micro_batch = s.micro_batch;
    const int global = whole("training", "global_batch_size", -1);
    constexpr std::int64_t kMostBatch = 1'000'000'000;
    c_.global_batch = global > 0
                          ? global
                          : static_cast<int>(std::min(
                                std::int64_t{local} * s.data, kMostBatch));
    const std::int64_t unit = std::int64_t{local} * s.data;
    if (*c_.global_batch % unit != 0)
      find(Severity::refused, "global-batch-divides",
           "training.global_batch_size",
           fmt::format("{} is not a multiple of local_batch_size * dp = {}*{}",
                       *c_.global_batch, local, s.data),
           fmt::format("{}", round_up(*c_.global_batch, unit)),
           "pytorch/torchtitan torchtitan/train.py");
    const int sequence = whole("training", "seq_len", 2048);
    if (sequence > 0) c_.sequence = sequence;
    c_.parameter = dtype("dtype", "float32");
    c_.precision = dtype("mixed_precision_param", "bfloat16");
    c_.gradient = *c_.parameter;
    const Precision reduce = dtype("mixed_precision_reduce", "float32");
    if (reduce != Precision::fp32) s.tuning.communication = reduce;
    if (truth("training", "enable_cpu_offload"))
      s.offload = {OffloadTier::cpu, OffloadTier::cpu};
    const toml::value& model = section("model");
    if (model.contains("converters") && model.at("converters").is_array())
      for (const toml::value& each : model.at("converters").as_array())
        if (each.is_string() && each.as_string().str == "float8")
          c_.precision = Precision::fp8;
  }

  void read_checkpointing() {
    Recompute& r = c_.strategy.recompute;
    const std::string mode = word("activation_checkpoint", "mode", "selective");
    if (mode == "full") r.mode = Recompute::Mode::full;
    if (mode != "selective") return;
    const std::string option =
        word("activation_checkpoint", "selective_ac_option", "2");
    if (option == "op") {
      r.mode = Recompute::Mode::selective;
      r.op = true;
      return;
    }
    r.mode = Recompute::Mode::full;
    const int every = std::max(1, std::atoi(option.c_str()));
    const int layers = given_.model != nullptr ? layer_count(*given_.model) : 0;
    const int chunk =
        layers / (c_.strategy.pipeline * c_.strategy.virtual_stages);
    if (every > 1 && chunk > 0) r.layers = std::max(1, chunk / every);
  }

  const toml::value& root_;
  std::string_view path_;
};

/// toml11 recurses; nothing that trains a model nests this deep.
void refuse_deep(std::string_view path, std::string_view text) {
  constexpr int kDeepest = 64;
  int depth = 0;
  for (const char c : text) {
    depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    if (c == '\n' && depth < 0) depth = 0;
    if (depth > kDeepest)
      throw Error(
          fmt::format("{} nests deeper than {} levels", quote(path), kDeepest));
  }
}

/// "[error] toml::parse_key_value_pair: missing value", for its last part.
std::string words_of(std::string_view problem) {
  std::string words = first_line(problem);
  const std::size_t colon = words.find(": ");
  return words.starts_with("[error]") && colon != std::string::npos
             ? words.substr(colon + 2)
             : words;
}

}  // namespace

Configuration read_torchtitan(std::string_view path, std::string_view text,
                              const Given& given) {
  refuse_deep(path, text);
  std::istringstream stream{std::string(text)};
  try {
    const toml::value root = toml::parse(stream, std::string(path));
    return Reader(root, path, given).read();
  } catch (const toml::exception& problem) {
    throw Error(fmt::format("{} is no TOML: line {}: {}", quote(path),
                            problem.location().line(),
                            words_of(problem.what())));
  } catch (const std::runtime_error& problem) {
    if (dynamic_cast<const Error*>(&problem) != nullptr) throw;
    throw Error(fmt::format("{} is no TOML: {}", quote(path),
                            words_of(problem.what())));
  }
}

}  // namespace ztplan
