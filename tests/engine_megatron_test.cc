#include <doctest/doctest.h>

#include <string>

#include "support/any_engine.h"
#include "support/setting_case.h"

using namespace ztplan;

namespace {

void make_moe(SettingCase& w) { w.model = small_moe(); }
void expert_bias(SettingCase& w) { w.model.layers[0].layer.ffn.bias = true; }
void make_dense(SettingCase& w) { w.model = small_gpt(); }
void shared(SettingCase& w) {
  make_moe(w);
  w.model.layers[0].layer.ffn.shared_width = 1024;
}
/// Layers with and without experts, as DeepSeek's.
void some_moe(SettingCase& w) {
  make_moe(w);
  w.model.layers[0].count = 8;
  w.model.layers.push_back(small_gpt().layers[0]);
  w.model.layers[1].count = 4;
}
void latent(SettingCase& w) {
  w.model.layers[0].layer.attention.latent = {512, 256, 64, 32, 64};
}
void eager(SettingCase& w) { w.workload.attention = AttentionKernel::eager; }
void fp16(SettingCase& w) { w.workload.precision = Precision::fp16; }
void volta(SettingCase& w) {
  w.cluster.device.architecture = "Volta";
  w.workload.precision = Precision::fp16;
}
void sequence_2044(SettingCase& w) { w.workload.sequence = 2044; }
void adapters(SettingCase& w) { w.workload.adapters = {.rank = 8, .q = true}; }
void lion(SettingCase& w) { w.workload.optimizer = OptimizerKind::lion; }
void adam8bit(SettingCase& w) {
  w.workload.optimizer = OptimizerKind::adam8bit;
}
void sdpa(SettingCase& w) { w.workload.attention = AttentionKernel::sdpa; }
void window(SettingCase& w) { w.model.layers[0].layer.attention.window = 512; }

void narrow(SettingCase& w) { w.workload.gradient = Precision::bf16; }
void wide(SettingCase& w) { w.workload.gradient = Precision::fp32; }
void fp8(SettingCase& w) { w.workload.precision = Precision::fp8; }
void fp8_odd(SettingCase& w) {
  w.workload.precision = Precision::fp8;
  w.workload.sequence = 2044;
}
void weights_fp8(SettingCase& w) {
  fp8(w);
  w.workload.parameter = Precision::fp8;
}
void states_bf16(SettingCase& w) { w.workload.moments = Precision::bf16; }

void zero_bubble(SettingCase& w) {
  w.workload.framework.splits_backward = true;
}
void whole(SettingCase& w) { w.workload.framework.splits_backward = false; }

constexpr RuleRow kRows[] = {
    {"no-gpipe", keep, "pp=2", keep, "pp=2,schedule=gpipe"},
    {"whole-backward", zero_bubble, "pp=2,schedule=zb-v", keep,
     "pp=2,schedule=dualpipe-v"},
    {"whole-backward", zero_bubble, "pp=2,schedule=zb-h2", whole,
     "pp=2,schedule=zb-h1"},
    {"fsdp-without-pipeline", keep, "pp=2,zero=1", keep, "pp=2,zero=2"},
    {"offload-optimizer-to-cpu-only", keep, "zero=1,offload=cpu", keep,
     "zero=1,offload=nvme"},
    {"offload-needs-distributed-optimizer", keep, "zero=1,offload=cpu", keep,
     "zero=0,offload=cpu"},
    {"context-needs-flash", keep, "cp=2,cp_type=ulysses", eager,
     "cp=2,cp_type=ulysses"},
    {"context-doubles", sequence_2044, "cp=2,cp_type=ulysses", keep,
     "cp=4,cp_type=ulysses"},
    {"experts-tensor-needs-sequence-parallel", make_moe, "tp=2,sp=1", keep,
     "tp=2,sp=0"},
    {"expert-bias-whole", make_moe, "tp=2,sp=1,etp=2", expert_bias,
     "tp=2,sp=1,etp=2"},
    {"experts-not-fp16", make_moe, "ep=8", fp16, "ep=8"},
    {"instances-divide-experts", make_moe, "ep=4,zero=1,shard=8", keep,
     "ep=4,zero=1,shard=2"},
    {"activation-is-of-experts", make_moe, "recompute=selective:activation",
     make_dense, "recompute=selective:activation"},
    {"modules-in-model", keep, "recompute=selective:mlp", make_moe,
     "recompute=selective:mlp"},
    {"modules-in-model", make_moe, "recompute=selective:moe+activation",
     make_dense, "recompute=selective:moe"},
    {"modules-in-model", latent, "recompute=selective:mla_up_proj", make_dense,
     "recompute=selective:norms+mla_up_proj"},
    {"modules-in-model", shared, "recompute=selective:shared_experts", make_moe,
     "recompute=selective:shared_experts"},
    {"modules-in-model", some_moe, "recompute=selective:mlp+moe", make_moe,
     "recompute=selective:mlp+moe"},
    {"window-not-in-ring", window, "cp=4,cp_type=ulysses", keep, "cp=4"},
    {"ulysses-kv-heads", keep, "cp=8,cp_type=ulysses", keep,
     "cp=16,cp_type=ulysses"},
    {"no-frozen-weights", keep, "tp=8", adapters, "tp=8"},
    {"optimizer-known", lion, "tp=8", adam8bit, "tp=8"},
    {"sharded-optimizer", lion, "tp=8,zero=1", keep, "zero=2"},
    {"offloaded-optimizer", keep, "zero=1,offload=cpu", lion,
     "zero=1,offload=cpu"},
    {"no-compression", keep, "zero=3", keep, "zero=3,prefetch=1e7"},
    {"communication-dtype", narrow, "zero=1,comm=bf16", wide,
     "zero=1,comm=bf16"},
    {"no-recompute-under-delayed-fp8", fp8, "recompute=selective", keep,
     "recompute=selective:norms"},
    {"weights-as-computed", weights_fp8, "zero=1", keep, "zero=0"},
    {"offload-without-fp8-weights", fp8, "zero=1,offload=cpu", weights_fp8,
     "zero=1,offload=cpu"},
    {"states-precision-aware", states_bf16, "zero=1", keep, "zero=0"},
    {"recompute-modules", keep, "recompute=selective", keep,
     "recompute=selective:op"},
    {"attention-known", keep, "tp=8", sdpa, "tp=8"},
    {"fp8-shapes", fp8, "tp=8,micro=1", fp8_odd, "tp=8,micro=1"},
    {"flash-supported", keep, "tp=8", volta, "tp=8"},
};

const Engine& megatron() { return find_engine("megatron"); }

}  // namespace

TEST_CASE("each rule of Megatron-LM tells legal from illegal") {
  check_rules(megatron(), kRows);
}

TEST_CASE("Megatron-LM refuses what another engine allows") {
  const SettingCase world = small_case();
  for (const RuleRow& row : kRows) {
    if (row.change != keep || row.spoil != keep) continue;
    CAPTURE(row.rule);
    CHECK(verdict(any_engine(), world, row.illegal) == "legal");
  }
}

TEST_CASE("flash attention without a kernel for it is refused, eager is not") {
  SettingCase world = small_case();
  volta(world);
  eager(world);
  CHECK(verdict(megatron(), world, "tp=8") == "legal");
  world = small_case();
  world.workload.precision = Precision::fp32;
  CHECK(verdict(megatron(), world, "tp=8") == "flash-supported");
}

TEST_CASE("a module that a model has not is named, and what is left of them") {
  SettingCase world = small_case();
  const Misfit alone =
      misfit_of(megatron(), world, "recompute=selective:mla_up_proj+moe");
  CHECK(alone.detail.find("mla_up_proj is of models with latent attention") !=
        std::string::npos);
  CHECK(alone.detail.find("moe is of models with experts") !=
        std::string::npos);
  CHECK(alone.nearest == "recompute=none, or full");
  CHECK(misfit_of(megatron(), world, "recompute=selective:moe+mlp").nearest ==
        "recompute=selective:mlp, or full");
}

TEST_CASE("a window as long as the sequence is no window") {
  SettingCase world = small_case();
  world.model.layers[0].layer.attention.window = 2048;
  CHECK(verdict(megatron(), world, "cp=4") == "legal");
}

TEST_CASE("shard groups offered keep equal optimizer instances") {
  SettingCase world = small_case();
  world.model = small_moe();
  const Misfit misfit = misfit_of(megatron(), world, "ep=4,zero=1,shard=2");
  CHECK(misfit.detail ==
        "shard 2 makes 8 optimizer instances, which do not divide the 4 ranks "
        "with equal experts");
  CHECK(misfit.nearest == "shard 4");
  CHECK(verdict(megatron(), world, "ep=4,zero=1,shard=4") == "legal");
}

TEST_CASE("Megatron-FSDP reduces in a dtype of its own") {
  const SettingCase world = small_case();
  CHECK(verdict(megatron(), world, "zero=2,comm=bf16") == "legal");
  CHECK(verdict(megatron(), world, "zero=2,comm=fp16") ==
        "communication-dtype");
}

TEST_CASE("widths and tokens that fp8 kernels refuse are named") {
  SettingCase world = small_case();
  fp8(world);
  world.model.layers[0].layer.ffn.width = 8200;
  const Misfit width = misfit_of(megatron(), world, "tp=2");
  CHECK(width.detail ==
        "fp8 kernels multiply widths in multiples of 16: 4100 on tp 2 is none");
  CHECK(width.nearest == "--precision bf16");
  world = small_case();
  fp8_odd(world);
  CHECK(misfit_of(megatron(), world, "tp=2").nearest ==
        "sequence 2040 or 2048");
  CHECK(verdict(megatron(), world, "tp=2,micro=2") == "legal");
}
