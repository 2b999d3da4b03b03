#include <doctest/doctest.h>

#include "support/setting_case.h"

using namespace ztplan;

namespace {

void narrow(SettingCase& w) { w.workload.gradient = Precision::bf16; }
void wide(SettingCase& w) { w.workload.gradient = Precision::fp32; }
void moe(SettingCase& w) {
  narrow(w);
  w.model = small_moe();
}
void fp8(SettingCase& w) { w.workload.precision = Precision::fp8; }
void fp4(SettingCase& w) {
  w.cluster.device.fp4 = 2 * w.cluster.device.fp8;
  w.workload.precision = Precision::fp4;
}
void fp8_odd(SettingCase& w) {
  w.workload.precision = Precision::fp8;
  w.workload.sequence = 2044;
}
void fp32(SettingCase& w) {
  w.workload.precision = w.workload.gradient = Precision::fp32;
  w.workload.attention = AttentionKernel::eager;
}
void lion(SettingCase& w) { w.workload.optimizer = OptimizerKind::lion; }
void lamb(SettingCase& w) {
  narrow(w);
  w.workload.optimizer = OptimizerKind::lamb;
}
void sdpa(SettingCase& w) { w.workload.attention = AttentionKernel::sdpa; }
void sequence_2046(SettingCase& w) { w.workload.sequence = 2046; }
void narrow_2046(SettingCase& w) {
  narrow(w);
  sequence_2046(w);
}
void stored_fp32(SettingCase& w) { w.workload.parameter = Precision::fp32; }
void states_bf16(SettingCase& w) { w.workload.moments = Precision::bf16; }
void volta(SettingCase& w) {
  w.cluster.device.architecture = "Volta";
  w.workload.precision = w.workload.gradient = Precision::fp16;
}

constexpr RuleRow kRows[] = {
    {"zero-pipeline", narrow, "pp=2,zero=1", keep, "pp=2,zero=2"},
    {"gemini-alone", fp8, "zero=3,tp=2", fp32, "zero=3"},
    {"gemini-adam", lamb, "zero=1", keep, "zero=3"},
    {"gemini-offloads-optimizer-first", narrow, "zero=3,offload=cpu+parameters",
     keep, "zero=3,offload=parameters:cpu"},
    {"experts-by-ep", moe, "ep=8,zero=1", keep, "ep=4,etp=2,zero=1"},
    {"experts-zero-1", moe, "ep=8,zero=1", keep, "ep=8,zero=0"},
    {"experts-divide-data", moe, "ep=8,zero=1", keep, "ep=8,tp=8,sp=1,zero=1"},
    {"offload-to-host", narrow, "zero=1,offload=cpu", keep,
     "zero=1,offload=nvme"},
    {"one-sequence-mode", narrow, "tp=2,sp=1", keep,
     "tp=2,sp=1,cp=2,cp_type=ulysses"},
    {"kv-heads-whole", narrow, "tp=8", keep, "tp=16"},
    {"ulysses-sequence", narrow_2046, "cp=2,cp_type=ulysses", keep,
     "cp=4,cp_type=ulysses"},
    {"ring-is-flash", narrow, "cp=2", sdpa, "cp=2"},
    {"stages-by-list", narrow, "pp=2,stages=5-7", keep, "pp=2,stages=ends"},
    {"no-gpipe", narrow, "pp=2", keep, "pp=2,schedule=gpipe"},
    {"whole-backward", narrow, "pp=2", keep, "pp=2,schedule=zb-h1"},
    {"shard-alone", narrow, "zero=1,shard=8", keep, "tp=2,zero=1,shard=4"},
    {"no-compression", narrow, "zero=3", keep, "zero=3,prefetch=1e7"},
    {"buckets-of-zero", narrow, "zero=1,bucket=1e7,comm=bf16", keep,
     "zero=3,bucket=1e7"},
    {"gradient-as-computed", narrow, "zero=1", wide, "zero=1"},
    {"weights-as-computed", narrow, "zero=1", stored_fp32, "zero=1"},
    {"states-fp32", narrow, "zero=1", states_bf16, "zero=1"},
    {"recompute-layers-only", narrow, "recompute=full", keep,
     "recompute=selective"},
    {"recompute-layers-only", narrow, "recompute=full", keep,
     "recompute=selective:mlp"},
    {"optimizer-known", narrow, "zero=1", lion, "zero=1"},
    {"no-fp4", fp8, "zero=1", fp4, "zero=1"},
    {"fp8-shapes", fp8, "zero=1,micro=1", fp8_odd, "zero=1,micro=1"},
    {"flash-supported", narrow, "zero=1", volta, "zero=1"},
};

}  // namespace

TEST_CASE("each rule of Colossal-AI tells legal from illegal") {
  check_rules(find_engine("colossalai"), kRows);
}

TEST_CASE("Colossal-AI keeps whole key/value heads under all-to-all") {
  SettingCase world = small_case();
  narrow(world);
  const Misfit misfit =
      misfit_of(find_engine("colossalai"), world, "tp=2,cp=8,cp_type=ulysses");
  CHECK(misfit.detail == "8 key/value heads are not a multiple of tp*cp = 2*8");
  CHECK(misfit.nearest == "cp 1, 2 or 4; cp_type=ring has no limit of heads");
}

TEST_CASE("chunks of interleaved stages cannot be listed") {
  SettingCase world = small_case();
  narrow(world);
  const Engine& engine = find_engine("colossalai");
  CHECK(verdict(engine, world, "pp=2,vpp=2") == "legal");
  CHECK(verdict(engine, world, "pp=2,vpp=2,stages=2-4-4-2") ==
        "stages-by-list");
}

// colossalai/booster/plugin/hybrid_parallel_plugin.py, no_sync: "please run
// gradient accumulation with gradient synchronization allowed".
TEST_CASE("Colossal-AI accumulates under ZeRO 2") {
  SettingCase world = small_case();
  narrow(world);
  CHECK(verdict(find_engine("colossalai"), world, "zero=2,micro=1") == "legal");
}
