#include <doctest/doctest.h>

#include "base/json.h"
#include "support/memory_world.h"

using namespace ztplan;

namespace {

double mib(Bytes bytes) {
  return static_cast<double>(bytes.value) / static_cast<double>(kMiB);
}

doctest::Approx within_one_percent(double value) {
  return doctest::Approx(value).epsilon(0.01);
}

Workload eager(int sequence) {
  Workload work = workload(sequence, 1);
  work.attention = AttentionKernel::eager;
  return work;
}

LayerActivations first_layer(const ModelSpec& model, const Workload& work,
                             const Strategy& strategy) {
  return layer_activations(model, model.layers.front().layer, work, strategy);
}

LayerActivations first_layer(const ModelSpec& model, const Workload& work,
                             const char* strategy) {
  return first_layer(model, work, parse_strategy(strategy, 0));
}

/// Saved bytes of one token, in hidden sizes.
double words(const ModelSpec& model, const char* strategy) {
  const LayerActivations layer =
      first_layer(model, workload(1024, 1), strategy);
  return layer.saved / Bytes{std::int64_t{1024} * model.hidden};
}

Bytes saved(const ModelSpec& model, const char* strategy) {
  return first_layer(model, workload(4096, 1), strategy).saved;
}

ModelSpec mixtral() {
  ModelSpec model = llama(32, 4096, 32, 8, 14336, 32000);
  FeedForward& ffn = model.layers.front().layer.ffn;
  ffn.experts = 8;
  ffn.top_k = 2;
  ffn.expert_width = ffn.width;
  return model;
}

/// DeepSeek-V3's attention before an MLP.
ModelSpec latent() {
  ModelSpec model = llama(1, 7168, 128, 128, 18432, 129280);
  model.layers.front().layer.attention.latent = {1536, 512, 128, 64, 128};
  return model;
}

}  // namespace

TEST_CASE("the published table of activations per layer is met") {
  const JsonView table =
      JsonView::load(ZTPLAN_SOURCE_DIR "/tests/published/activations.json");
  const JsonView rows = table.at("rows");
  const Workload work = eager(table.at("sequence").small_integer(1, 1 << 20));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const JsonView row = rows[i];
    CAPTURE(row.at("model").string());
    const ModelSpec model =
        gpt(1, row.at("hidden").small_integer(1, 1 << 20),
            row.at("heads").small_integer(1, 1 << 20), 51200);
    Strategy strategy = parse_strategy("tp=8", 0);
    strategy.micro_batch = row.at("micro_batch").small_integer(1, 8);
    const auto layer = [&] { return first_layer(model, work, strategy); };
    CHECK(mib(layer().checkpoint) ==
          within_one_percent(row.at("full_mib").number()));
    CHECK(mib(layer().saved) ==
          within_one_percent(row.at("none_mib").number()));
    strategy.sequence_parallel = true;
    CHECK(mib(layer().saved) ==
          within_one_percent(row.at("sequence_mib").number()));
    strategy.recompute = parse_recompute("selective");
    CHECK(mib(layer().saved) ==
          within_one_percent(row.at("selective_mib").number()));
  }
}

// llm.c, README and train_gpt2.cu: 16, 12 and 10 words of 16 bits a hidden
// element at its three levels of recomputation, beside fp32 statistics. It has
// no dropout, whose two masks take two bytes.
TEST_CASE("a flash GPT layer keeps 32, 24 and 20 bytes a hidden element") {
  const ModelSpec model = gpt(1, 8192, 64, 50304);
  CHECK(words(model, "") == within_one_percent(2 + 32));
  CHECK(words(model, "recompute=selective:activation") ==
        within_one_percent(2 + 24));
  CHECK(words(model, "recompute=selective:activation+norms") ==
        within_one_percent(2 + 20));
}

// stas00/ml-engineering, training/performance: one layer of Llama 3.1 8B, as
// transformers has it, keeps 28 bf16 tensors of hidden size.
TEST_CASE("weights of a GPT layer wait with the 32 bytes of the paper") {
  // arXiv 2401.10241, table 1: W holds 32sbh.
  const ModelSpec model = gpt(1, 8192, 64, 50304);
  const auto waiting = [&](const char* strategy) {
    return first_layer(model, workload(1024, 1), strategy).pending /
           Bytes{std::int64_t{1024} * model.hidden};
  };
  CHECK(waiting("tp=1") == 32);
  CHECK(waiting("recompute=full") == 32);
  // Of a row-parallel product the gradient is whole: 2 of them, and 2 inputs of
  // column-parallel ones, which sequence parallelism cuts.
  CHECK(waiting("tp=8") == 8 + 24.0 / 8);
  CHECK(waiting("tp=8,sp=1") == 4 + 4.0 / 8 + 24.0 / 8);
}

TEST_CASE("an unfused Llama 3 8B layer keeps 28 tensors of hidden size") {
  const ModelSpec model = llama3_8b();
  const Bytes all =
      saved(model, "") + unfused_activations(model, model.layers.front().layer,
                                             workload(4096, 1), Strategy{});
  CHECK(all / Bytes{std::int64_t{4096} * 2 * 4096} == within_one_percent(28));
}

// 8h + 4ad + 4kd + 6f + 4a + 8 with h 4096, a 32, k 8, d 128, f 14336.
TEST_CASE("a Llama 3 8B layer keeps 139,400 bytes a token") {
  const Bytes one = saved(llama3_8b(), "");
  CHECK(one.value ==
        std::int64_t{4096} * (32768 + 16384 + 4096 + 86016 + 128 + 8));
}

// The same with the inputs of its four products (two norms, the attention, the
// gated MLP) in one byte each, beside what attention reads in 16 bits.
TEST_CASE("fp8 products of Transformer Engine keep their inputs in fp8") {
  Workload work = workload(4096, 1);
  work.precision = Precision::fp8;
  const auto bytes_a_token = [&](const char* strategy) {
    return first_layer(llama3_8b(), work, strategy).saved.value / 4096;
  };
  CHECK(bytes_a_token("") == 139'400);
  work.framework.narrow_inputs = true;
  CHECK(bytes_a_token("") == 24'576 + 20'480 + 4096 + 71'680 + 128 + 8);
  CHECK(bytes_a_token("recompute=selective:activation+norms") ==
        16'384 + 20'480 + 4096 + 57'344 + 128 + 8);
}

// Two tensors of 4096 for each of two experts: what they are sent and, where it
// is weighed afterwards, what they return.
TEST_CASE("experts that weigh within keep nothing of what they return") {
  Workload work = workload(4096, 1);
  const auto keeps = [&](const char* strategy) {
    return first_layer(mixtral(), work, strategy).saved.value / 4096;
  };
  const std::int64_t before = keeps(""), loaded = keeps("dp=8,ep=8");
  work.framework.weighs_within_experts = true;
  CHECK(before - keeps("") == 2 * 2 * 4096);
  CHECK(loaded - keeps("dp=8,ep=8") == 2 * 2 * 4096 * 5 / 4);
  work.routing = Routing::forced;
  CHECK(keeps("dp=8,ep=8") == keeps(""));
}

// Megatron-Bridge, Moonlight 16B: recomputing the attention core under flash
// attention freed 4 MB of 36.6 GB. Queries, keys, values and output stay.
TEST_CASE("under flash attention its core keeps only log-sum-exp") {
  const Bytes less = saved(llama3_8b(), "") -
                     saved(llama3_8b(), "recompute=selective:attention");
  CHECK(less == Bytes{std::int64_t{4} * 32 * 4096});
}

TEST_CASE("tensor and sequence parallelism divide what they cut") {
  const ModelSpec model = llama3_8b();
  const std::int64_t stream = 8 * 4096 + 8;
  const std::int64_t cut = 139400 - stream;
  CHECK(saved(model, "tp=8").value == 4096 * (stream + cut / 8));
  CHECK(saved(model, "tp=8,sp=1").value == 4096 * 139400 / 8);
  CHECK(saved(model, "cp=4").value == 1024 * 139400);
}

TEST_CASE("key and value heads are copied when tensor exceeds them") {
  const ModelSpec model = llama3_8b();
  const Bytes eight = saved(model, "tp=8,sp=1");
  const Bytes sixteen = saved(model, "tp=16,sp=1");
  const std::int64_t key_value = 4 * 8 * 128 / 8;
  CHECK(sixteen.value - 4096 * key_value ==
        (eight.value - 4096 * key_value) / 2);
}

// DeepSeek-V3: 128 heads of 128 + 64 and values of 128, latents of 1536 and 512
// before and after their norms, and the rotary key.
TEST_CASE("latent attention keeps whole heads and both latents") {
  const ModelSpec model = latent();
  const Bytes plain = saved(llama(1, 7168, 128, 128, 18432, 129280), "");
  const std::int64_t heads = std::int64_t{128} * (2 * 192 + 2 * 128);
  const std::int64_t latents = std::int64_t{2} * (1536 + 512) + 64;
  const std::int64_t replaced = std::int64_t{4} * 7168;
  CHECK(saved(model, "") - plain == Bytes{8192 * (heads + latents - replaced)});
}

TEST_CASE("Ulysses copies key/value heads that are too few to trade") {
  const ModelSpec model = llama3_8b();
  const std::int64_t key_value = std::int64_t{4} * 8 * 128;
  CHECK(saved(model, "cp=8,cp_type=ulysses") == saved(model, "cp=8"));
  CHECK(saved(model, "cp=16,cp_type=ulysses") - saved(model, "cp=16") ==
        Bytes{4096 / 16 * key_value});
}

// Two experts of eight a token: inner tensors twice a dense MLP's, tokens sent
// and returned, and the router's fp32 logits and probabilities.
TEST_CASE("a layer of experts keeps its routed tokens") {
  const Bytes dense = saved(llama(32, 4096, 32, 8, 14336, 32000), "");
  const std::int64_t more = 6 * 14336 + 2 * 2 * 2 * 4096 + 8 * 8 + 8 * 2;
  CHECK(saved(mixtral(), "") - dense == Bytes{4096 * more});
  CHECK(saved(mixtral(), "ep=8,dp=8") > saved(mixtral(), ""));
  // Rows sent and returned are those of both ranks that share an expert.
  const std::int64_t shared = 4096L / 2 * 2 * (2L * 2 * 4096);
  CHECK(saved(mixtral(), "tp=2,sp=1,etp=2") - saved(mixtral(), "tp=2,sp=1") ==
        Bytes{shared});
}

// NVIDIA/Megatron-LM: of a module under tensor_parallel.checkpoint its input
// alone is kept. That of a dense MLP is the stream, its norm being a part of
// Transformer Engine's first product; that of experts is the norm's output.
TEST_CASE("a recomputed MLP keeps nothing of it, nor of its norm") {
  const auto less = [](const ModelSpec& model, const std::string& with,
                       const std::string& without) {
    return saved(model, without.c_str()) - saved(model, with.c_str());
  };
  const std::int64_t inner = 2L * 3 * 14336, norm = 2L * 4096;
  const char* mlp = "recompute=selective:mlp";
  CHECK(less(llama3_8b(), mlp, "") == Bytes{4096 * (inner + norm + 4)});
  CHECK(less(llama3_8b(), std::string("tp=8,sp=1,") + mlp, "tp=8,sp=1") ==
        Bytes{4096 * (inner + norm + 4) / 8});
  // The norm's output is dropped once, whoever drops it.
  CHECK(less(llama3_8b(), "recompute=selective:norms+mlp",
             "recompute=selective:norms") == Bytes{4096 * (inner + 4)});
  CHECK(less(mixtral(), mlp, "") == Bytes{0});
  // 2sbh into its GELU and out of it, each four times as wide.
  CHECK(less(gpt(1, 8192, 64, 50304), std::string("tp=8,") + mlp, "tp=8") ==
        Bytes{4096L * (2 * 8 * 8192 / 8 + 2 * 8192 + 8)});
}

TEST_CASE("recomputed experts keep nothing between their norm and their sum") {
  const std::int64_t router = 2 * 4 * 8 + 8 * 2;
  const std::int64_t rows = 2;
  const std::int64_t each = 2 * 2 * 4096 + 2 * 3 * 14336;
  CHECK(saved(mixtral(), "") - saved(mixtral(), "recompute=selective:moe") ==
        Bytes{4096 * (router + rows * each)});
  // What is left is a dense layer whose MLP is recomputed, and one norm.
  CHECK(saved(mixtral(), "recompute=selective:moe") -
            saved(llama(32, 4096, 32, 8, 14336, 32000),
                  "recompute=selective:mlp") ==
        Bytes{4096L * (2 * 4096 + 4)});
  ModelSpec shared = mixtral();
  shared.layers.front().layer.ffn.shared_width = 2048;
  CHECK(saved(shared, "") -
            saved(shared, "recompute=selective:shared_experts") ==
        Bytes{4096L * 2 * 3 * 2048});
  CHECK(saved(shared, "recompute=selective:moe") ==
        saved(mixtral(), "recompute=selective:moe"));
  CHECK(saved(shared, "recompute=selective:moe+shared_experts+activation") ==
        saved(shared, "recompute=selective:moe"));
}

// Megatron-LM, multi_latent_attention.py: queries, keys and values are made
// again out of the latents, with the norms that their products begin with.
TEST_CASE("recomputed up-projections keep latents before their norms") {
  const std::int64_t heads = std::int64_t{2} * 128 * (192 + 192 + 128);
  const std::int64_t norms = std::int64_t{2} * (1536 + 512);
  const char* text = "recompute=selective:mla_up_proj";
  CHECK(saved(latent(), "") - saved(latent(), text) ==
        Bytes{4096 * (heads + norms)});
  CHECK(saved(latent(), "tp=8,sp=1") -
            saved(latent(), (std::string("tp=8,sp=1,") + text).c_str()) ==
        Bytes{4096 * (heads + norms) / 8});
  CHECK(saved(llama3_8b(), text) == saved(llama3_8b(), ""));
}

TEST_CASE("a recomputed module is whole again in its own backward") {
  const auto more = [](const ModelSpec& model, const char* text) {
    const Workload work = workload(4096, 1);
    return first_layer(model, work, text).working -
           first_layer(model, work, "").working;
  };
  const std::int64_t norm = 2L * 4096, statistic = 4;
  // The MLP is where each of these needs most, before and after.
  CHECK(more(llama3_8b(), "recompute=selective:mlp") ==
        Bytes{4096 * (2L * 3 * 14336 + norm)});
  CHECK(more(mixtral(), "recompute=selective:moe") ==
        saved(mixtral(), "") - saved(mixtral(), "recompute=selective:moe"));
  CHECK(more(llama3_8b(), "recompute=selective:mlp") +
            Bytes{4096 * statistic} ==
        saved(llama3_8b(), "") - saved(llama3_8b(), "recompute=selective:mlp"));
}

// hpcaitech/ColossalAI#4537: "tried to allocate 32.00 GiB".
TEST_CASE("eager scores of Llama 2 7B, batch 16, are 32 GiB") {
  const ModelSpec model = llama(32, 4096, 32, 32, 11008, 32000);
  const LayerActivations layer =
      first_layer(model, eager(4096), "micro=16,recompute=full");
  CHECK(layer.attention_scores == Bytes{32 * kGiB});
  CHECK(first_layer(model, workload(4096, 1), "micro=16").attention_scores ==
        Bytes{0});
}

// THUDM/slime#2253: 11,600 tokens of a vocabulary of 248,320 in fp32.
TEST_CASE("fp32 logits of 248,320 words are 10.73 GiB") {
  const ModelSpec model = llama(1, 2048, 16, 2, 4096, 248320);
  const auto logits = [&](int sequence, const char* strategy) {
    return gib(end_activations(model, workload(sequence, 1),
                               parse_strategy(strategy, 0), model.vocab,
                               LossKernel::eager)
                   .fp32_logits);
  };
  CHECK(logits(11600, "") == doctest::Approx(10.73).epsilon(0.001));
  CHECK(logits(32768, "") == doctest::Approx(30.31).epsilon(0.001));
  CHECK(logits(32768, "tp=8") == doctest::Approx(30.31 / 8).epsilon(0.001));
}

TEST_CASE("each loss kernel holds what its source does") {
  const ModelSpec model = llama3_8b();
  const auto per_logit = [&](LossKernel kernel) {
    const EndActivations ends = end_activations(
        model, workload(8192, 1), Strategy{}, model.vocab, kernel);
    return ends.logits / Bytes{std::int64_t{8192} * model.vocab};
  };
  CHECK(per_logit(LossKernel::fused) == 2);
  CHECK(per_logit(LossKernel::compiled) == 4);
  CHECK(per_logit(LossKernel::vocab_parallel) == 6);
  CHECK(per_logit(LossKernel::eager) == 12);
  CHECK(per_logit(LossKernel::upcast) == 20);
  CHECK(per_logit(LossKernel::uncast) == 8);
  // linkedin/Liger-Kernel, ops/fused_linear_cross_entropy.py: 128,256 / 4,096
  // is 32 chunks of 256 tokens, beside the gradient of the hidden states.
  const EndActivations linear =
      end_activations(model, workload(8192, 1), Strategy{}, model.vocab,
                      LossKernel::fused_linear);
  CHECK(linear.loss_saved == Bytes{2L * 8192 * 4096});
  CHECK(linear.logits - linear.loss_saved == Bytes{2L * 256 * model.vocab});
}

TEST_CASE("recomputed tensors take no more room than those not kept") {
  for (const ModelSpec& model : {llama3_8b(), gpt(24, 1024, 16, 51200)}) {
    for (const Workload& work : {eager(2048), workload(2048, 1)}) {
      for (const char* part : {"attention", "norms", "activation", "mlp"}) {
        CAPTURE(std::string(part));
        const std::string text = std::string("recompute=selective:") + part;
        const LayerActivations kept = first_layer(model, work, "");
        const LayerActivations rebuilt = first_layer(model, work, text.c_str());
        CHECK(rebuilt.saved < kept.saved);
        CHECK(rebuilt.saved + rebuilt.working <= kept.saved + kept.working);
      }
    }
  }
}

TEST_CASE("more recomputation never stores more of a layer") {
  constexpr char kModules[] =
      "recompute=selective:activation+norms+attention+mlp+moe+mla_up_proj";
  const char* ladder[] = {"recompute=none", "recompute=selective:activation",
                          "recompute=selective:activation+norms",
                          "recompute=selective:activation+norms+attention",
                          kModules};
  for (const ModelSpec& model :
       {gpt(1, 4096, 32, 50304), llama3_8b(), mixtral(), latent()}) {
    for (const Workload& work : {workload(2048, 1), eager(2048)}) {
      Bytes before = first_layer(model, work, ladder[0]).saved;
      for (const char* rung : ladder) {
        const LayerActivations layer = first_layer(model, work, rung);
        CHECK(layer.saved <= before);
        CHECK(layer.checkpoint <= layer.saved);
        before = layer.saved;
      }
    }
  }
}
