#include <doctest/doctest.h>
#include <fmt/format.h>

#include <set>
#include <string>

#include "support/setting_case.h"

using namespace ztplan;

namespace {

void narrow(SettingCase& w) { w.workload.gradient = Precision::bf16; }
void wide(SettingCase& w) { w.workload.gradient = Precision::fp32; }
void narrow_moe(SettingCase& w) {
  narrow(w);
  w.model = small_moe();
}
void gated_moe(SettingCase& w) {
  narrow_moe(w);
  w.model.layers[0].layer.ffn.gated = true;
}
void fp8(SettingCase& w) { w.workload.precision = Precision::fp8; }
void lamb(SettingCase& w) { w.workload.optimizer = OptimizerKind::lamb; }
void narrow_lamb(SettingCase& w) {
  narrow(w);
  lamb(w);
}
void narrow_muon(SettingCase& w) {
  narrow(w);
  w.workload.optimizer = OptimizerKind::muon;
}
void volta(SettingCase& w) {
  w.cluster.device.architecture = "Volta";
  w.workload.precision = w.workload.gradient = Precision::fp16;
}

void fp16(SettingCase& w) {
  w.workload.precision = w.workload.gradient = Precision::fp16;
}
void bf16(SettingCase& w) {
  w.workload.precision = w.workload.gradient = Precision::bf16;
}
void eager(SettingCase& w) { w.workload.attention = AttentionKernel::eager; }
void sequence_2046(SettingCase& w) { w.workload.sequence = 2046; }
void narrow_2046(SettingCase& w) {
  narrow(w);
  sequence_2046(w);
}
void adam8bit(SettingCase& w) {
  w.workload.optimizer = OptimizerKind::adam8bit;
}
void narrow_8bit(SettingCase& w) {
  narrow(w);
  adam8bit(w);
}
void lion(SettingCase& w) { w.workload.optimizer = OptimizerKind::lion; }
void qlora(SettingCase& w) {
  narrow(w);
  w.workload.adapters = {.rank = 8, .q = true};
  w.workload.quantize = Quantize::nf4;
}
void weights_fp8(SettingCase& w) { w.workload.parameter = Precision::fp8; }
void states_bf16(SettingCase& w) { w.workload.moments = Precision::bf16; }

constexpr RuleRow kRows[] = {
    {"zero-pipeline", narrow, "pp=2,zero=1", keep, "pp=2,zero=2"},
    {"pipeline-1f1b", narrow, "pp=2", keep, "pp=2,schedule=gpipe"},
    {"stages-by-list", narrow, "pp=2,stages=5-7", keep, "pp=2,stages=ends"},
    {"no-sequence-parallel", narrow, "tp=2", keep, "tp=2,sp=1"},
    {"context-by-ulysses", narrow, "cp=2,cp_type=ulysses", keep, "cp=2"},
    {"ulysses-alone", narrow, "cp=2,cp_type=ulysses", keep,
     "cp=2,cp_type=ulysses,tp=2"},
    {"ulysses-sequence", narrow_2046, "cp=2,cp_type=ulysses", keep,
     "cp=4,cp_type=ulysses"},
    {"ulysses-attention", narrow, "cp=2,cp_type=ulysses", eager,
     "cp=2,cp_type=ulysses"},
    {"shard-is-mics", narrow, "zero=3,shard=8", keep, "zero=2,shard=8"},
    {"mics-on-device", narrow, "zero=3,shard=8", keep,
     "zero=3,shard=8,offload=cpu"},
    {"zero-plus-plus-stage", narrow, "zero=3,hpz=8,qw=1,compress=quantized",
     keep, "zero=2,compress=quantized"},
    {"hpz-divides", narrow, "zero=3,hpz=8", keep, "zero=3,hpz=7"},
    {"groups-without-tensor", narrow, "zero=3,tp=2", keep,
     "zero=3,tp=2,shard=4"},
    {"one-bit-without-zero", narrow, "zero=0,compress=onebit", keep,
     "zero=1,compress=onebit"},
    {"one-bit-optimizer", narrow_lamb, "zero=0,compress=onebit", lion,
     "zero=0,compress=onebit"},
    {"no-topk", narrow, "zero=0", keep, "zero=0,compress=topk"},
    {"offload-needs-zero", narrow, "zero=1,offload=cpu", keep,
     "zero=0,offload=cpu"},
    {"nvme-needs-stage-3", narrow, "zero=3,offload=nvme", keep,
     "zero=2,offload=nvme"},
    {"pipeline-on-device", fp16, "pp=2,zero=1,offload=cpu", bf16,
     "pp=2,zero=1,offload=cpu"},
    {"quantized-stay", qlora, "zero=3,offload=cpu", keep,
     "zero=3,offload=cpu+parameters"},
    {"experts-divide-data", narrow_moe, "ep=8,tp=2,zero=2", keep,
     "ep=8,tp=4,zero=2"},
    {"experts-by-ep", narrow_moe, "ep=8", keep, "ep=8,etp=2"},
    {"experts-at-stage-3", narrow_moe, "ep=8,zero=2", keep, "ep=8,zero=3"},
    {"experts-at-stage-3", gated_moe, "ep=8,zero=3", keep, "ep=8,zero=3,hpz=8"},
    {"experts-at-stage-3", gated_moe, "ep=4,zero=3", keep, "ep=4,tp=2,zero=3"},
    {"no-fp8", narrow, "zero=3", fp8, "zero=3"},
    {"recompute-layers-only", narrow, "recompute=full:3", keep,
     "recompute=selective"},
    {"recompute-layers-only", narrow, "recompute=full:3", keep,
     "recompute=selective:mlp"},
    {"gradient-accumulation-dtype", wide, "zero=1", keep, "zero=2"},
    {"lamb-without-zero", narrow_lamb, "zero=0", keep, "zero=1"},
    {"muon-needs-zero", narrow_muon, "zero=1", keep, "zero=0"},
    {"muon-reduces-whole", narrow_muon, "zero=3", keep,
     "zero=3,compress=quantized"},
    {"offloaded-optimizer", narrow_8bit, "zero=2", keep, "zero=2,offload=cpu"},
    {"communication-dtype", narrow, "zero=2,comm=fp32", keep,
     "zero=2,comm=fp8"},
    {"weights-as-computed", narrow, "zero=3", weights_fp8, "zero=3"},
    {"states-fp32", narrow, "zero=3", states_bf16, "zero=3"},
    {"flash-supported", narrow, "zero=3", volta, "zero=3"},
};

const Engine& deepspeed() { return find_engine("deepspeed"); }

}  // namespace

TEST_CASE("each rule of DeepSpeed tells legal from illegal") {
  check_rules(deepspeed(), kRows);
}

// deepspeedai/DeepSpeed#3589: another engine runs the pair.
TEST_CASE("FSDP runs a pipeline with sharded parameters, DeepSpeed does not") {
  SettingCase world = small_case();
  world.workload.gradient = Precision::bf16;
  for (const char* pair : {"tp=2,pp=2,zero=2", "tp=2,pp=2,zero=3"}) {
    const Misfit misfit = misfit_of(deepspeed(), world, pair);
    CHECK(misfit.detail.find("DeepSpeed") != std::string::npos);
    CHECK(verdict(find_engine("fsdp"), world, pair) == "legal");
  }
}

// verl-project/verl#1226: heads and key/value heads, and the legal degrees.
TEST_CASE("Ulysses is legal for the degrees that heads allow") {
  struct Row {
    int heads, kv_heads;
    std::set<int> legal;
  };
  for (const Row& row :
       {Row{40, 8, {1, 2, 4, 8, 40}}, Row{28, 4, {1, 2, 4, 28}}}) {
    SettingCase world = small_case();
    world.workload.gradient = Precision::bf16;
    world.model.positions = Positions::rotary;
    Attention& attention = world.model.layers[0].layer.attention;
    attention.heads = row.heads;
    attention.kv_heads = row.kv_heads;
    std::set<int> legal;
    for (int cp = 1; cp <= row.heads; ++cp) {
      world.cluster.devices = cp;
      world.workload.sequence = 64 * cp;
      const std::string text = fmt::format("cp={},cp_type=ulysses", cp);
      const std::string rule = verdict(deepspeed(), world, text);
      if (rule == "legal") {
        legal.insert(cp);
        continue;
      }
      CHECK(rule == "ulysses-heads");
      CHECK(misfit_of(deepspeed(), world, text)
                .nearest.ends_with("has no limit of heads"));
    }
    CHECK(legal == row.legal);
  }
}
