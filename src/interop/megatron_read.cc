// Reads arguments of pretrain_gpt.py out of a shell script or a plain list.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "base/error.h"
#include "base/nearest.h"
#include "base/quote.h"
#include "interop/findings.h"
#include "interop/megatron.h"
#include "interop/shell_script.h"
#include "spec/catalog.h"
#include "strategy/recomputed.h"

namespace ztplan {
namespace {

constexpr const char* kArguments =
    "NVIDIA/Megatron-LM megatron/training/arguments.py";

constexpr std::string_view kFlags[] = {
    "num-layers",
    "hidden-size",
    "ffn-hidden-size",
    "num-attention-heads",
    "seq-length",
    "max-position-embeddings",
    "vocab-size",
    "make-vocab-size-divisible-by",
    "group-query-attention",
    "num-query-groups",
    "kv-channels",
    "swiglu",
    "normalization",
    "norm-epsilon",
    "disable-bias-linear",
    "add-qkv-bias",
    "qk-layernorm",
    "untie-embeddings-and-output-weights",
    "position-embedding-type",
    "rotary-base",
    "rotary-percent",
    "window-size",
    "multi-latent-attention",
    "q-lora-rank",
    "kv-lora-rank",
    "qk-head-dim",
    "qk-pos-emb-head-dim",
    "v-head-dim",
    "num-experts",
    "moe-layer-freq",
    "moe-ffn-hidden-size",
    "moe-shared-expert-intermediate-size",
    "moe-shared-expert-gate",
    "moe-router-topk",
    "moe-router-pre-softmax",
    "moe-token-dispatcher-type",
    "moe-grouped-gemm",
    "moe-router-load-balancing-type",
    "moe-aux-loss-coeff",
    "moe-permute-fusion",
    "moe-router-dtype",
    "moe-router-score-function",
    "moe-router-enable-expert-bias",
    "moe-router-num-groups",
    "moe-router-group-topk",
    "moe-router-topk-scaling-factor",
    "moe-expert-capacity-factor",
    "moe-shared-expert-overlap",
    "tensor-model-parallel-size",
    "pipeline-model-parallel-size",
    "context-parallel-size",
    "expert-model-parallel-size",
    "expert-tensor-parallel-size",
    "sequence-parallel",
    "cp-comm-type",
    "num-layers-per-virtual-pipeline-stage",
    "num-virtual-stages-per-pipeline-rank",
    "pipeline-model-parallel-layout",
    "decoder-first-pipeline-num-layers",
    "decoder-last-pipeline-num-layers",
    "account-for-embedding-in-pipeline-split",
    "account-for-loss-in-pipeline-split",
    "microbatch-group-size-per-virtual-pipeline-stage",
    "no-overlap-p2p-communication",
    "micro-batch-size",
    "global-batch-size",
    "train-iters",
    "train-samples",
    "use-distributed-optimizer",
    "num-distributed-optimizer-instances",
    "overlap-grad-reduce",
    "overlap-param-gather",
    "ddp-bucket-size",
    "ddp-num-buckets",
    "grad-reduce-in-bf16",
    "accumulate-allreduce-grads-in-fp32",
    "use-precision-aware-optimizer",
    "main-grads-dtype",
    "main-params-dtype",
    "exp-avg-dtype",
    "exp-avg-sq-dtype",
    "optimizer-cpu-offload",
    "optimizer-offload-fraction",
    "overlap-cpu-optimizer-d2h-h2d",
    "optimizer",
    "use-megatron-fsdp",
    "use-custom-fsdp",
    "data-parallel-sharding-strategy",
    "use-torch-fsdp2",
    "ckpt-format",
    "recompute-granularity",
    "recompute-method",
    "recompute-num-layers",
    "recompute-modules",
    "recompute-activations",
    "distribute-saved-activations",
    "cpu-offloading-num-layers",
    "tp-comm-overlap",
    "overlap-moe-expert-parallel-comm",
    "delay-wgrad-compute",
    "bf16",
    "fp16",
    "fp8-format",
    "fp8-recipe",
    "fp8-param-gather",
    "reuse-grad-buf-for-mxfp8-param-ag",
    "fp8-amax-history-len",
    "fp8-amax-compute-algo",
    "fp4-format",
    "first-last-layers-bf16",
    "attention-backend",
    "use-flash-attn",
    "use-mcore-models",
    "transformer-impl",
    "hidden-dropout",
    "attention-dropout",
    "cross-entropy-loss-fusion",
    "cross-entropy-fusion-impl",
    "lr",
    "min-lr",
    "lr-decay-style",
    "lr-warmup-iters",
    "lr-warmup-fraction",
    "lr-decay-iters",
    "weight-decay",
    "clip-grad",
    "adam-beta1",
    "adam-beta2",
    "init-method-std",
    "seed",
    "mock-data",
    "data-path",
    "split",
    "save",
    "load",
    "save-interval",
    "eval-interval",
    "eval-iters",
    "log-interval",
    "log-throughput",
    "tensorboard-dir",
    "wandb-project",
    "wandb-exp-name",
    "tokenizer-type",
    "tokenizer-model",
    "vocab-file",
    "merge-file",
    "distributed-backend",
    "distributed-timeout-minutes",
    "no-load-optim",
    "no-load-rng",
    "no-gradient-accumulation-fusion",
    "no-masked-softmax-fusion",
    "manual-gc",
    "manual-gc-interval",
    "num-workers",
    "exit-interval",
    "exit-duration-in-mins",
    "mtp-num-layers",
    "mtp-loss-scaling-factor",
    "use-tp-pp-dp-mapping",
    "empty-unused-memory-level",
    "te-rng-tracker",
    "enable-experimental",
    "cuda-graph-impl",
    "cuda-graph-modules"};

class Reader : private Reading {
 public:
  Reader(const ShellArguments& parsed, std::string_view path,
         const std::optional<Ranks>& ranks, const Given& given)
      : Reading("megatron", given),
        parsed_(parsed),
        path_(path),
        ranks_(ranks) {
    if (ranks) c_.gpus = ranks->nodes * ranks->per_node;
  }

  Configuration read() && {
    check_names();
    read_grid();
    read_states();
    read_recompute();
    read_numbers();
    read_batch();
    read_model();
    read_stages();
    check_traps();
    check_fp8();
    check_connections();
    return std::move(c_);
  }

 private:
  bool has(std::string_view flag) const {
    return parsed_.flags.find(flag) != parsed_.flags.end();
  }
  std::string text(std::string_view flag) const {
    const auto found = parsed_.flags.find(flag);
    if (found == parsed_.flags.end() || found->second.empty()) return "";
    return found->second.front();
  }
  std::optional<std::int64_t> number(std::string_view flag) const {
    const std::string value = text(flag);
    if (value.starts_with('$')) return std::nullopt;
    if (value.empty() && has(flag))
      throw Error(fmt::format("{}: --{} has no value", path_, flag),
                  "--" + std::string(flag) + " N");
    if (value.empty()) return std::nullopt;
    std::int64_t number = 0;
    const auto [stop, problem] =
        std::from_chars(value.data(), value.data() + value.size(), number);
    constexpr std::int64_t kMost = 1'000'000'000'000;
    if (problem != std::errc{} || stop != value.data() + value.size() ||
        number < 0 || number > kMost)
      throw Error(fmt::format("{}: --{} must be a whole number, not {}", path_,
                              flag, quote(value)));
    return number;
  }
  std::optional<int> size(std::string_view flag, int most) const {
    const auto value = number(flag);
    if (!value) return std::nullopt;
    if (*value < 1 || *value > most)
      throw Error(fmt::format("{}: --{} must be from 1 to {}, not {}", path_,
                              flag, most, *value));
    return static_cast<int>(*value);
  }
  int size_or(std::string_view flag, int fallback) const {
    return size(flag, kMaxSize).value_or(fallback);
  }
  void check_names() {
    const UnknownKey unknown{Severity::advice,
                             "is not known to ztplan; Megatron-LM aborts on "
                             "flags it does not have",
                             kArguments};
    find_unknown(parsed_.names, "", kFlags, unknown, c_.findings);
    for (const std::string& word : parsed_.unresolved)
      find(Severity::advice, "unresolved-variable", word,
           "its value is set outside of this file", "write the value here",
           kArguments);
  }

  void read_grid() {
    Strategy& s = c_.strategy;
    s.tensor = size_or("tensor-model-parallel-size", 1);
    s.pipeline = size_or("pipeline-model-parallel-size", 1);
    s.context = size_or("context-parallel-size", 1);
    s.expert = size_or("expert-model-parallel-size", 1);
    s.sequence_parallel = has("sequence-parallel") && s.tensor > 1;
    if (text("cp-comm-type") == "a2a") s.context_kind = ContextKind::ulysses;
    if (has("sequence-parallel") && s.tensor == 1)
      find(Severity::trap, "sequence-parallel-off", "sequence-parallel",
           "it is switched off without tensor parallelism", "remove it",
           kArguments);
    if (has("num-experts"))
      s.expert_tensor = size_or("expert-tensor-parallel-size", s.tensor);
  }

  void read_states() {
    Strategy& s = c_.strategy;
    if (has("use-distributed-optimizer")) s.zero = 1;
    if (has("use-megatron-fsdp") || has("use-custom-fsdp")) {
      const std::string kind = text("data-parallel-sharding-strategy");
      s.zero = kind == "no_shard"      ? 0
               : kind == "optim"       ? 1
               : kind == "optim_grads" ? 2
                                       : 3;
    }
    if (has("use-torch-fsdp2")) s.zero = 3;
    const int instances = size_or("num-distributed-optimizer-instances", 1);
    const std::int64_t cut = std::int64_t{s.tensor} * s.pipeline;
    const auto ranks = static_cast<int>(given_.gpus / cut);  // dp * cp
    if (instances > 1 && ranks >= instances) s.shard_group = ranks / instances;
    s.tuning.overlap = has("overlap-grad-reduce");
    s.tuning.bucket = number("ddp-bucket-size");
    if (has("optimizer-cpu-offload")) s.offload.optimizer = OffloadTier::cpu;
    c_.gradient = Precision::fp32;
    if (has("grad-reduce-in-bf16"))
      c_.gradient = has("fp16") ? Precision::fp16 : Precision::bf16;
    if (has("fp16") && !has("accumulate-allreduce-grads-in-fp32"))
      c_.gradient = Precision::fp16;
    if (has("optimizer")) c_.optimizer = optimizer(text("optimizer"));
  }

  OptimizerKind optimizer(const std::string& name) const {
    if (name == "adam" || name == "sgd" || name == "lion" || name == "muon")
      return parse_optimizer(name);
    if (name.ends_with("muon")) return OptimizerKind::muon;
    throw Error(
        fmt::format("{}: --optimizer {} is not known", path_, quote(name)),
        "adam, sgd, lion or muon");
  }

  void read_recompute() {
    Recompute& r = c_.strategy.recompute;
    std::string granularity = text("recompute-granularity");
    if (has("recompute-activations")) granularity = "selective";
    if (granularity == "full") {
      r.mode = Recompute::Mode::full;
      const int layers = size_or("recompute-num-layers", 1);
      if (text("recompute-method") == "block") r.layers = layers;
      if (!has("recompute-method") || !has("recompute-num-layers"))
        find(Severity::refused, "full-needs-method", "recompute-granularity",
             "full recomputation needs --recompute-method and "
             "--recompute-num-layers",
             "--recompute-method uniform --recompute-num-layers 1", kArguments);
    }
    if (granularity != "selective") return;
    r.mode = Recompute::Mode::selective;
    const auto modules = parsed_.flags.find("recompute-modules");
    if (modules == parsed_.flags.end() || modules->second.empty()) {
      r.attention = true;
      return;
    }
    for (const std::string& module : modules->second) read_module(module);
    if (!names_parts(r)) r.attention = true;
  }

  void read_module(const std::string& module) {
    const auto* part =
        std::ranges::find(kRecomputedParts, module, &RecomputedPart::megatron);
    if (part != std::end(kRecomputedParts)) {
      c_.strategy.recompute.*part->flag = true;
      return;
    }
    find(Severity::advice, "module-not-counted", "recompute-modules",
         fmt::format("what recomputing {} saves is not counted", quote(module)),
         "the peak shown is on the safe side",
         "NVIDIA/Megatron-LM megatron/core/transformer/transformer_config.py");
  }

  void read_numbers() {
    if (has("bf16") && has("fp16"))
      find(Severity::refused, "one-precision", "fp16",
           "--bf16 and --fp16 exclude each other", "keep one of them",
           kArguments);
    c_.precision = has("bf16")   ? Precision::bf16
                   : has("fp16") ? Precision::fp16
                                 : Precision::fp32;
    if (has("fp8-format")) c_.precision = Precision::fp8;
    if (has("fp4-format")) c_.precision = Precision::fp4;
    if (has("fp8-param-gather")) c_.parameter = Precision::fp8;
    if (has("fp8-format") && !has("fp8-param-gather"))
      find(Severity::advice, "fp8-costs-memory", "fp8-format",
           "fp8 beside bf16 weights buys speed, not memory: copies in fp8 are "
           "added",
           "--fp8-param-gather with --use-distributed-optimizer",
           "NVIDIA/Megatron-LM#1237");
    const std::string backend = text("attention-backend");
    c_.attention = backend == "unfused" || backend == "local"
                       ? AttentionKernel::eager
                       : AttentionKernel::flash;
  }

  void read_batch() {
    c_.sequence = size("seq-length", 1 << 26);
    c_.micro_batch = size("micro-batch-size", kMaxSize);
    c_.global_batch = size("global-batch-size", 100'000'000);
    if (c_.micro_batch) c_.strategy.micro_batch = *c_.micro_batch;
    if (!c_.micro_batch)
      find(Severity::refused, "micro-batch-missing", "micro-batch-size",
           "it is required", "--micro-batch-size 1", kArguments);
    const Strategy& s = c_.strategy;
    const std::int64_t model = std::int64_t{s.tensor} * s.pipeline * s.context;
    const auto ranks =
        static_cast<int>(given_.gpus > 0 ? given_.gpus / model : 0);
    if (c_.micro_batch && ranks > 0)
      close_batch_triangle("global-batch-size", ranks, given_.gpus, c_);
  }

  Attention attention(int hidden) const {
    Attention a;
    a.heads = size_or("num-attention-heads", 1);
    a.kv_heads =
        has("group-query-attention") ? size_or("num-query-groups", 1) : a.heads;
    a.head_size = size_or("kv-channels", std::max(1, hidden / a.heads));
    const bool biased = !has("disable-bias-linear");
    a.qkv_bias = biased || has("add-qkv-bias");
    a.output_bias = biased;
    if (has("qk-layernorm")) a.qk_norm = QkNorm::head;
    if (!has("multi-latent-attention")) return a;
    constexpr int kRank = 32, kHead = 128, kRope = 64;  // transformer_config.py
    a.latent.q_rank = size_or("q-lora-rank", 0);
    a.latent.kv_rank = size_or("kv-lora-rank", kRank);
    a.latent.nope_size = size_or("qk-head-dim", kHead);
    a.latent.rope_size = size_or("qk-pos-emb-head-dim", kRope);
    a.latent.value_size = size_or("v-head-dim", kHead);
    a.head_size = a.latent.nope_size + a.latent.rope_size;
    a.kv_heads = a.heads;
    a.qk_norm = QkNorm::none;  // of the latents, counted with them
    return a;
  }

  FeedForward ffn(int hidden) const {
    FeedForward f;
    f.gated = has("swiglu");
    constexpr int kWiden = 4, kThirds = 3, kMultiple = 64;  // arguments.py
    const int usual = f.gated ? static_cast<int>(std::int64_t{hidden} * kWiden *
                                                 2 / kThirds / kMultiple) *
                                    kMultiple
                              : kWiden * hidden;
    f.width = size_or("ffn-hidden-size", std::max(1, usual));
    f.bias = !has("disable-bias-linear");
    f.activation = f.gated ? Activation::silu : Activation::gelu;
    return f;
  }

  FeedForward experts(FeedForward f) const {
    constexpr int kTopK = 2;
    f.experts = size_or("num-experts", 1);
    f.top_k = size_or("moe-router-topk", kTopK);
    f.expert_width = size_or("moe-ffn-hidden-size", f.width);
    f.shared_width = size_or("moe-shared-expert-intermediate-size", 0);
    f.shared_gate = has("moe-shared-expert-gate");
    return f;
  }

  /// "([0]*3+[1]*58)" or "1": for each layer whether it has experts.
  std::vector<bool> expert_layers(int layers) const {
    const std::string freq = text("moe-layer-freq");
    std::vector<bool> has_experts;
    int value = -1, times = 0;
    bool in_times = false;
    const auto flush = [&] {
      if (value >= 0)
        has_experts.insert(has_experts.end(),
                           static_cast<std::size_t>(in_times ? times : 1),
                           value == 1);
      value = -1;
      times = 0;
      in_times = false;
    };
    for (const char c : freq) {
      if (c >= '0' && c <= '9') {
        if (in_times)
          times = std::min(times * 10 + (c - '0'), kMaxSize);
        else
          value = c - '0';
      } else if (c == '*') {
        in_times = true;
      } else if (c == '+' || c == ',') {
        flush();
      }
    }
    flush();
    if (static_cast<int>(has_experts.size()) == layers) return has_experts;
    int every = 1;
    if (has_experts.size() == 1) every = std::max(1, std::atoi(freq.c_str()));
    has_experts.assign(static_cast<std::size_t>(layers), false);
    for (int i = 0; i < layers; i += every)
      has_experts[static_cast<std::size_t>(i)] = true;
    return has_experts;
  }

  void read_model() {
    constexpr int kMostLayers = 100'000;
    const auto layers = size("num-layers", kMostLayers);
    const auto hidden = size("hidden-size", 1 << 20);
    if (!layers || !hidden || !has("num-attention-heads")) return;
    ModelSpec model;
    model.name = "megatron-arguments";
    model.hidden = *hidden;
    model.sequence = c_.sequence.value_or(0);
    constexpr int kGptVocab = 50257;
    model.vocab = size("vocab-size", 100'000'000).value_or(kGptVocab);
    if (text("tokenizer-type") == "NullTokenizer")
      model.vocab += kNullTokenizerWords;
    model.norm = text("normalization") == "RMSNorm" ? Norm::rms : Norm::layer;
    const std::string positions = text("position-embedding-type");
    model.positions = positions == "rope"   ? Positions::rotary
                      : positions == "none" ? Positions::none
                                            : Positions::learned;
    if (model.positions == Positions::learned)
      model.position_rows =
          size("max-position-embeddings", 1 << 26).value_or(model.sequence);
    model.tied = !has("untie-embeddings-and-output-weights");
    model.source = std::string(path_);
    Layer layer;
    layer.attention = attention(*hidden);
    layer.ffn = ffn(*hidden);
    if (!has("num-experts")) {
      append_layers(model, *layers, layer);
    } else {
      for (const bool routed : expert_layers(*layers)) {
        Layer one = layer;
        if (routed) one.ffn = experts(layer.ffn);
        append_layers(model, 1, one);
      }
    }
    validate(model);
    c_.model = std::move(model);
  }

  int layers() const {
    if (const auto count = size("num-layers", 100'000)) return *count;
    return given_.model != nullptr ? layer_count(*given_.model) : 0;
  }

  void read_stages() {
    Strategy& s = c_.strategy;
    if (has("num-virtual-stages-per-pipeline-rank"))
      s.virtual_stages = size_or("num-virtual-stages-per-pipeline-rank", 1);
    if (has("account-for-embedding-in-pipeline-split") &&
        has("account-for-loss-in-pipeline-split"))
      s.ends_as_layers = true;
    const int all = layers() + (s.ends_as_layers ? 2 : 0);
    if (has("num-layers-per-virtual-pipeline-stage") && all > 0) {
      const int each = size_or("num-layers-per-virtual-pipeline-stage", 1);
      s.virtual_stages = std::max(1, all / s.pipeline / each);
      if (all % (std::int64_t{s.pipeline} * each) != 0)
        find(Severity::refused, "virtual-stages-divide",
             "num-layers-per-virtual-pipeline-stage",
             fmt::format("{} layers are not {} stages of chunks of {}", all,
                         s.pipeline, each),
             "a divisor of the layers of a stage", kArguments);
    }
    read_ends(all);
    if (has("pipeline-model-parallel-layout"))
      read_layout(text("pipeline-model-parallel-layout"));
    if (s.virtual_stages > 1) s.schedule = Schedule::interleaved;
  }

  void read_ends(int all) {
    Strategy& s = c_.strategy;
    const auto first = size("decoder-first-pipeline-num-layers", kMaxSize);
    const auto last = size("decoder-last-pipeline-num-layers", kMaxSize);
    if ((!first && !last) || s.pipeline < 2 || all == 0) return;
    const int rest = all - first.value_or(0) - last.value_or(0);
    const int middle = s.pipeline - (first ? 1 : 0) - (last ? 1 : 0);
    if (middle <= 0 || rest < 0 || rest % middle != 0) {
      find(Severity::refused, "middle-stages-divide",
           "decoder-first-pipeline-num-layers",
           fmt::format("{} layers are left for {} stages", rest, middle),
           "numbers that leave a multiple of the middle stages", kArguments);
      return;
    }
    s.stage_layers.assign(static_cast<std::size_t>(s.pipeline), rest / middle);
    if (first) s.stage_layers.front() = *first;
    if (last) s.stage_layers.back() = *last;
  }

  void read_layout(const std::string& layout) {
    Strategy& s = c_.strategy;
    const std::vector<int> chunks = parse_pipeline_layout(layout);
    const int stages = s.pipeline;
    if (chunks.empty() || static_cast<int>(chunks.size()) % stages != 0) {
      find(Severity::refused, "layout-stages", "pipeline-model-parallel-layout",
           fmt::format("{} is no layout of {} stages", quote(layout), stages),
           "one E, one L, a t for every layer, | between stages",
           "NVIDIA/Megatron-LM megatron/core/transformer/"
           "pipeline_parallel_layer_layout.py");
      return;
    }
    int sum = 0;
    for (const int count : chunks) sum += count;
    if (layers() > 0 && sum != layers())
      find(Severity::refused, "layout-layers", "pipeline-model-parallel-layout",
           fmt::format("it holds {} layers of {}", sum, layers()),
           "a t for every layer",
           "NVIDIA/Megatron-LM megatron/core/transformer/"
           "pipeline_parallel_layer_layout.py");
    s.virtual_stages = static_cast<int>(chunks.size()) / stages;
    s.stage_layers = chunks;
  }

  void check_traps() {
    if (has("overlap-param-gather") && !has("overlap-grad-reduce"))
      find(Severity::refused, "gather-needs-reduce", "overlap-param-gather",
           "it needs --overlap-grad-reduce", "add --overlap-grad-reduce",
           kArguments);
    if (has("tp-comm-overlap") && !has("sequence-parallel"))
      find(Severity::refused, "overlap-needs-sequence-parallel",
           "tp-comm-overlap", "it needs --sequence-parallel",
           "add --sequence-parallel", kArguments);
    if (has("optimizer-cpu-offload") && !has("use-precision-aware-optimizer"))
      find(Severity::refused, "offload-needs-precision-aware",
           "optimizer-cpu-offload", "it needs --use-precision-aware-optimizer",
           "add --use-precision-aware-optimizer",
           "NVIDIA/Megatron-LM megatron/core/optimizer/optimizer_config.py");
    if (has("moe-shared-expert-overlap") &&
        c_.strategy.recompute.shared_experts)
      find(Severity::refused, "shared-experts-overlap", "recompute-modules",
           "shared experts that overlap the exchange are not recomputed",
           "drop shared_experts or --moe-shared-expert-overlap",
           "NVIDIA/Megatron-LM megatron/core/transformer/"
           "transformer_config.py");
    if (text("cross-entropy-fusion-impl") == "te")
      find(Severity::refused, "te-cross-entropy", "cross-entropy-fusion-impl",
           "te is refused", "--cross-entropy-fusion-impl native", kArguments);
    const bool moe_tensor = has("num-experts") && c_.strategy.tensor > 1 &&
                            !has("sequence-parallel");
    if (moe_tensor)
      find(Severity::refused, "experts-need-sequence-parallel",
           "sequence-parallel", "experts with tensor parallelism need it",
           "add --sequence-parallel",
           "NVIDIA/Megatron-LM megatron/core/transformer/moe/moe_layer.py");
  }

  // Gradients and fp8 weights share a buffer that overlap alone keeps apart.
  void check_fp8() {
    const bool shares = text("fp8-recipe") == "mxfp8" &&
                        has("reuse-grad-buf-for-mxfp8-param-ag") &&
                        has("fp8-param-gather");
    const bool overlaps =
        has("overlap-grad-reduce") && has("overlap-param-gather");
    if (shares && !overlaps)
      find(Severity::trap, "mxfp8-needs-overlap",
           "reuse-grad-buf-for-mxfp8-param-ag",
           "without --overlap-grad-reduce and --overlap-param-gather the loss "
           "became NaN (mended by pull request 4769)",
           "add both", "NVIDIA/Megatron-LM#2272");
  }

  void check_connections() {
    const auto said = parsed_.assigned.find("CUDA_DEVICE_MAX_CONNECTIONS");
    const bool is_one = said != parsed_.assigned.end() && said->second == "1";
    const bool is_fsdp = has("use-megatron-fsdp") || has("use-custom-fsdp") ||
                         has("use-torch-fsdp2");
    const bool is_cut = c_.strategy.tensor > 1 || c_.strategy.context > 1;
    if (is_fsdp && is_one)
      find(Severity::refused, "fsdp-needs-connections",
           "CUDA_DEVICE_MAX_CONNECTIONS",
           "FSDP is refused with 1: its gathers would wait for compute",
           "unset it", kArguments);
    if (ranks_ && is_cut && !is_fsdp && !is_one)
      find(Severity::advice, "connections-not-one",
           "CUDA_DEVICE_MAX_CONNECTIONS",
           "tensor and context parallelism assert that it is 1 before "
           "Blackwell, and this script does not set it",
           "export CUDA_DEVICE_MAX_CONNECTIONS=1", kArguments);
  }

  const ShellArguments& parsed_;
  std::string_view path_;
  std::optional<Ranks> ranks_;  // that the script starts
};

}  // namespace

Configuration read_megatron(std::string_view path, std::string_view text,
                            const Given& given) {
  const ShellArguments parsed = parse_arguments(text);
  if (parsed.names.empty())
    throw Error(fmt::format("{} holds no --arguments", quote(path)),
                "a script or a list with --num-layers and the like");
  if (parsed.is_cut_off)
    throw Error(fmt::format("{} ends inside a quoted text", quote(path)),
                "the file is cut off, or a quote is not closed");
  const std::optional<Ranks> ranks = launched_ranks(text);
  Given known = given;
  if (ranks && known.gpus == 0) known.gpus = ranks->nodes * ranks->per_node;
  return Reader(parsed, path, ranks, known).read();
}

}  // namespace ztplan
