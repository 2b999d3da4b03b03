#include <doctest/doctest.h>

#include <set>
#include <string>

#include "support/any_engine.h"
#include "support/setting_case.h"

using namespace ztplan;

namespace {

Attention& attention(SettingCase& w) {
  return w.model.layers[0].layer.attention;
}
void heads(SettingCase& w, int queries, int keys) {
  attention(w).heads = queries;
  attention(w).kv_heads = keys;
}
void heads_6_6(SettingCase& w) { heads(w, 6, 6); }
void heads_24_6(SettingCase& w) { heads(w, 24, 6); }
void heads_24_8(SettingCase& w) { heads(w, 24, 8); }
void make_moe(SettingCase& w) { w.model = small_moe(); }
void width_8196(SettingCase& w) { w.model.layers[0].layer.ffn.width = 8196; }
void batch_48(SettingCase& w) { w.workload.global_batch = 48; }
void sequence_2044(SettingCase& w) { w.workload.sequence = 2044; }
void sequence_4096(SettingCase& w) { w.workload.sequence = 4096; }
void eager(SettingCase& w) { w.workload.attention = AttentionKernel::eager; }
void encoder(SettingCase& w) { w.model.encoder_layers = 6; }
void adapters(SettingCase& w) { w.workload.adapters = parse_adapters("r=8"); }
void no_drives(SettingCase& w) { w.cluster.host.nvme = Bytes{0}; }
void no_bf16(SettingCase& w) { w.cluster.device.bf16 = FlopsPerSecond{0}; }
void fp16_gradients(SettingCase& w) { w.workload.gradient = Precision::fp16; }

constexpr RuleRow kRows[] = {
    {"devices-match", keep, "tp=8,dp=2", keep, "tp=8,dp=3"},
    {"heads-divide", heads_6_6, "tp=2", keep, "tp=4"},
    {"kv-heads-divide", heads_24_6, "tp=2", keep, "tp=4"},
    {"width-divides", width_8196, "tp=4", keep, "tp=8"},
    {"batch-divide", keep, "micro=4", keep, "micro=3"},
    {"shard-needs-zero", keep, "zero=1,shard=4", keep, "zero=0,shard=4"},
    {"shard-divides", keep, "zero=3,shard=8", keep, "zero=3,shard=6"},
    {"parameter-offload-needs-zero-3", keep, "zero=3,offload=cpu+parameters",
     keep, "zero=2,offload=cpu+parameters"},
    {"sharded-tuning", keep, "zero=3,hpz=8,prefetch=1e7", keep,
     "zero=2,prefetch=1e7"},
    {"nvme-present", keep, "zero=1,offload=nvme", no_drives,
     "zero=1,offload=nvme"},
    {"sequence-parallel-needs-tensor", keep, "tp=2,sp=1", keep, "sp=1"},
    {"positions-cover", keep, "tp=2", sequence_4096, "tp=2"},
    {"sequence-tensor", sequence_2044, "tp=4,sp=1", keep, "tp=8,sp=1"},
    {"sequence-context", sequence_2044, "cp=2", keep, "cp=4"},
    {"ring-needs-flash", eager, "cp=4,cp_type=ulysses", keep, "cp=4"},
    {"ulysses-heads", heads_24_8, "cp=8,cp_type=ulysses", keep,
     "cp=16,cp_type=ulysses"},
    {"expert-ranks", make_moe, "pp=4,ep=4", keep, "pp=4,ep=8"},
    {"experts-exist", make_moe, "ep=8",
     [](SettingCase& w) { w.model = small_gpt(); }, "ep=8"},
    {"experts-divide", make_moe, "ep=8", keep, "ep=16"},
    {"expert-ranks", make_moe, "pp=4,ep=2,etp=2", keep, "pp=4,ep=4,etp=2"},
    {"expert-width-divides", make_moe, "tp=2,etp=2",
     [](SettingCase& w) {
       w.model = small_moe();
       w.model.layers[0].layer.ffn.expert_width = 1023;
     },
     "tp=2,etp=2"},
    {"schedule-chunks", keep, "pp=2,vpp=3", keep, "pp=2,vpp=3,schedule=1f1b"},
    {"schedule-chunks", keep, "pp=2,vpp=3,schedule=zb-h1", keep,
     "pp=2,vpp=3,schedule=zb-h2"},
    {"schedule-chunks", keep, "pp=2,schedule=zb-v", keep,
     "pp=2,vpp=3,schedule=zb-v"},
    {"dualpipe-fills", keep, "pp=2,vpp=2,schedule=dualpipe-v", batch_48,
     "pp=2,micro=3,schedule=dualpipe-v"},
    {"interleaved-needs-pipeline", keep, "pp=2,vpp=3", keep, "vpp=3"},
    {"interleaved-needs-pipeline", keep, "pp=2,schedule=zb-h2", keep,
     "schedule=zb-h1"},
    {"split-backward-trains", keep, "pp=2,schedule=zb-h1", adapters,
     "pp=2,schedule=zb-h1"},
    {"interleaved-rounds", batch_48, "pp=4,vpp=3", keep, "pp=4,vpp=3,micro=2"},
    {"encoder-whole", encoder, "tp=8", keep, "pp=2"},
    {"stages-once", keep, "pp=2,stages=6-6", keep, "stages=ends"},
    {"layers-divide", keep, "pp=4", keep, "pp=8"},
    {"recompute-layers", keep, "pp=4,recompute=full:3", keep,
     "pp=4,recompute=full:4"},
    {"precision-supported", keep, "tp=8", no_bf16, "tp=8"},
    {"gradient-precision", keep, "tp=8", fp16_gradients, "tp=8"},
};

const Rule* rule_of(const Strategy& strategy) {
  const SettingCase world = small_case();
  return broken_rule(any_engine(), world.setting(), strategy);
}

}  // namespace

TEST_CASE("each common rule tells a legal strategy from an illegal one") {
  for (const RuleRow& row : kRows) {
    CAPTURE(row.rule);
    SettingCase world = small_case();
    row.change(world);
    CHECK(verdict(any_engine(), world, row.legal) == "legal");
    row.spoil(world);
    CHECK(verdict(any_engine(), world, row.illegal) == row.rule);
  }
}

TEST_CASE("sizes and parts that no text can name are refused too") {
  Strategy legal;
  legal.data = 16;
  CHECK(rule_of(legal) == nullptr);
  for (int Strategy::*size :
       {&Strategy::tensor, &Strategy::pipeline, &Strategy::virtual_stages,
        &Strategy::context, &Strategy::expert, &Strategy::data,
        &Strategy::micro_batch}) {
    Strategy wrong = legal;
    wrong.*size = 0;
    CHECK(rule_of(wrong)->name == std::string("sizes-in-range"));
  }
  Strategy nothing_named = legal;
  nothing_named.recompute.mode = Recompute::Mode::selective;
  CHECK(rule_of(nothing_named)->name == std::string("recompute-parts"));
  Strategy part_of_full = legal;
  part_of_full.recompute = {.mode = Recompute::Mode::full, .attention = true};
  CHECK(rule_of(part_of_full)->name == std::string("recompute-parts"));
}

TEST_CASE("every common rule has a case, a name of its own and a source") {
  std::set<std::string> cases = {"sizes-in-range", "recompute-parts"};
  for (const RuleRow& row : kRows) cases.insert(row.rule);
  std::set<std::string> names;
  for (const Rule& rule : common_rules()) {
    CAPTURE(rule.name);
    CHECK(cases.contains(rule.name));
    CHECK(names.insert(rule.name).second);
    CHECK(std::string(rule.source).size() > 10);
  }
  CHECK(names == cases);
}

TEST_CASE("a misfit says the rule, the values, the nearest and the source") {
  for (const RuleRow& row : kRows) {
    SettingCase world = small_case();
    row.change(world);
    row.spoil(world);
    const Misfit misfit = misfit_of(any_engine(), world, row.illegal);
    CAPTURE(row.rule);
    CHECK(misfit.rule == row.rule);
    CHECK(misfit.engine == "any");
    CHECK(!misfit.detail.empty());
    CHECK(!misfit.nearest.empty());
    CHECK(!misfit.source.empty());
  }
}

TEST_CASE("layers that do not divide get every even cut and an uneven one") {
  // NVIDIA/Megatron-LM issue 1304: 30 layers on 4 stages.
  SettingCase world = small_case();
  world.model.layers[0].count = 30;
  const Misfit misfit = misfit_of(any_engine(), world, "pp=4");
  CHECK(misfit.detail == "30 layers are not divisible by pp 4");
  CHECK(misfit.nearest ==
        "even stages: pp 1, 2, 3, 5, 6, 10, 15 or 30; uneven: stages=7-8-8-7");
  CHECK(verdict(any_engine(), world, "pp=4,stages=7-8-8-7") == "legal");
  CHECK(verdict(any_engine(), world, "pp=4,stages=ends") == "legal");
}

TEST_CASE("uneven stages are offered chunk by chunk under interleaving") {
  SettingCase world = small_case();
  world.model.layers[0].count = 61;  // DeepSeek-V3
  const Misfit misfit = misfit_of(any_engine(), world, "pp=4,vpp=2");
  CHECK(misfit.nearest == "even stages: none; uneven: stages=7-8-8-8-8-8-7-7");
  CHECK(verdict(any_engine(), world, "pp=4,vpp=2,stages=7-8-8-8-8-8-7-7") ==
        "legal");
}

TEST_CASE("stages that do not add up are named with what they hold") {
  const SettingCase world = small_case();
  const Misfit misfit = misfit_of(any_engine(), world, "pp=4,stages=3-3-3-2");
  CHECK(misfit.detail ==
        "stages=3-3-3-2 is 4 numbers with 11 layers; pp 4 needs 4 numbers "
        "with 12 layers");
  CHECK(misfit_of(any_engine(), world, "pp=4,vpp=2,stages=3-3-3-3").detail ==
        "stages=3-3-3-3 is 4 numbers with 12 layers; pp 4 needs 4 multiples "
        "of vpp 2, or 8 numbers, with 12 layers");
}

TEST_CASE("a batch that does not divide gets the two around it") {
  // OpenRLHF/OpenRLHF issue 346: batch 256, micro-batch 2, 7 GPUs.
  SettingCase world = small_case();
  world.cluster.devices = 7;
  world.cluster.levels = {level_of("node", 7)};
  world.workload.global_batch = 256;
  const Misfit misfit = misfit_of(any_engine(), world, "micro=2");
  CHECK(misfit.detail ==
        "global batch 256 is not a multiple of dp*micro = "
        "7*2 = 14");
  CHECK(misfit.nearest ==
        "global batch 252 (accumulation 18) or 266 (accumulation 19), or dp 4");
}

TEST_CASE("Ulysses is legal for exactly the sizes its maintainers give") {
  // verl-project/verl issue 1226: heads % cp == 0, kv % cp or cp % kv == 0.
  const struct {
    int heads, kv_heads;
    std::set<int> legal;
  } rows[] = {{40, 8, {1, 2, 4, 8, 40}}, {28, 4, {1, 2, 4, 28}}};
  for (const auto& row : rows) {
    SettingCase world = small_case();
    heads(world, row.heads, row.kv_heads);
    for (int cp = 1; cp <= row.heads; ++cp) {
      world.cluster.devices = cp;
      Strategy s;
      s.context = cp;
      s.context_kind = ContextKind::ulysses;
      const Rule* rule = broken_rule(any_engine(), world.setting(), s);
      CAPTURE(cp);
      CHECK((rule == nullptr) == row.legal.contains(cp));
      if (rule) CHECK(rule->name == std::string("ulysses-heads"));
    }
  }
}

TEST_CASE("a Ulysses misfit lists the whole set") {
  SettingCase world = small_case();
  heads(world, 40, 8);
  world.cluster.devices = 16;
  const Misfit misfit = misfit_of(any_engine(), world, "cp=16,cp_type=ulysses");
  CHECK(misfit.detail ==
        "Ulysses scatters 40 heads over cp 16: cp must divide them, and "
        "divide or be divided by the 8 key/value heads");
  CHECK(misfit.nearest ==
        "cp 1, 2, 4, 8 or 40; cp_type=ring, where the engine has it, has no "
        "limit of heads");
}

TEST_CASE("nearest sizes are the closest that the rule allows") {
  SettingCase world = small_case();
  heads(world, 96, 96);
  world.cluster.devices = 80;
  CHECK(misfit_of(any_engine(), world, "tp=5,dp=16").nearest == "tp 4 or 6");
  CHECK(misfit_of(any_engine(), world, "tp=8,dp=3").nearest == "dp 10");
  world.cluster.devices = 7;
  CHECK(misfit_of(any_engine(), world, "tp=2,dp=4").nearest ==
        "6 GPUs or 8 GPUs or tp 1 or tp 7");
}

TEST_CASE("an encoder keeps its sequence whole as well as its layers") {
  SettingCase world = small_case();
  encoder(world);
  CHECK(verdict(any_engine(), world, "cp=2") == "encoder-whole");
}

TEST_CASE("stages are given once") {
  Strategy both = parse_strategy("pp=2,stages=6-6", 16);
  both.ends_as_layers = true;
  CHECK(rule_of(both)->name == std::string("stages-once"));
}

TEST_CASE("a causal ring needs two chunks a rank, another one") {
  SettingCase world = small_case();
  world.workload.sequence = 2044;
  CHECK(verdict(any_engine(), world, "cp=4") == "sequence-context");
  attention(world).causal = false;
  CHECK(verdict(any_engine(), world, "cp=4") == "legal");
}

TEST_CASE("latent attention projects keys and values for every head") {
  SettingCase world = small_case();
  heads(world, 16, 3);
  CHECK(verdict(any_engine(), world, "tp=8") == "kv-heads-divide");
  attention(world).latent.kv_rank = 512;
  CHECK(verdict(any_engine(), world, "tp=8") == "legal");
}

TEST_CASE("experts are whole on a tensor rank, what all share is cut") {
  SettingCase world = small_case();
  world.model = small_moe();
  FeedForward& ffn = world.model.layers[0].layer.ffn;
  ffn.width = 0;
  ffn.expert_width = 1001;
  CHECK(verdict(any_engine(), world, "tp=8") == "legal");
  ffn.shared_width = 1001;
  CHECK(verdict(any_engine(), world, "tp=8") == "width-divides");
}

TEST_CASE("gradients may be as wide as the weights or fp32") {
  SettingCase world = small_case();
  world.workload.precision = Precision::fp8;
  for (const auto& [gradient, expected] :
       {std::pair{Precision::fp32, "legal"},
        {Precision::bf16, "legal"},
        {Precision::fp16, "gradient-precision"},
        {Precision::fp8, "gradient-precision"}}) {
    world.workload.gradient = gradient;
    CHECK(verdict(any_engine(), world, "tp=8") == expected);
  }
}

TEST_CASE("a device without the format names those it has") {
  SettingCase world = small_case();
  DeviceSpec& device = world.cluster.device;
  device.name = "Tesla V100";
  device.architecture = "Volta";
  device.bf16 = device.fp8 = FlopsPerSecond{0};
  const Misfit misfit = misfit_of(any_engine(), world, "tp=8");
  CHECK(misfit.detail == "Tesla V100 (Volta) has no bf16 arithmetic");
  CHECK(misfit.nearest == "precision fp16, fp32");
}

TEST_CASE("sharded gradients and pipelines meet where the engine allows") {
  const SettingCase world = small_case();
  CHECK(verdict(any_engine(), world, "pp=2,zero=2") == "legal");
  CHECK(verdict(any_engine(), world, "pp=2,zero=3") == "legal");
}
