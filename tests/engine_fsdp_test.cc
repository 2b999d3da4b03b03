#include <doctest/doctest.h>

#include "support/setting_case.h"

using namespace ztplan;

namespace {

void volta(SettingCase& w) {
  w.cluster.device.architecture = "Volta";
  w.workload.precision = Precision::fp16;
}

void moe(SettingCase& w) { w.model = small_moe(); }
void sequence_2040(SettingCase& w) { w.workload.sequence = 2040; }
void fp16(SettingCase& w) { w.workload.precision = Precision::fp16; }
void fp8(SettingCase& w) { w.workload.precision = Precision::fp8; }
void fp4(SettingCase& w) {
  w.cluster.device.fp4 = 2 * w.cluster.device.fp8;
  w.workload.precision = Precision::fp4;
}
void fp8_odd(SettingCase& w) {
  w.workload.precision = Precision::fp8;
  w.workload.sequence = 2044;
}
void pure(SettingCase& w) { w.workload.parameter = Precision::bf16; }
void short_states(SettingCase& w) { w.workload.moments = Precision::bf16; }
void pure_and_short(SettingCase& w) {
  pure(w);
  short_states(w);
}
void whole(SettingCase& w) { w.workload.parameter.reset(); }
void nf4(SettingCase& w) {
  w.workload.adapters = {.rank = 8, .q = true};
  w.workload.quantize = Quantize::nf4;
}
void int8(SettingCase& w) { w.workload.quantize = Quantize::int8; }

constexpr RuleRow kRows[] = {
    {"no-zero-1", keep, "zero=2", keep, "zero=1"},
    {"shard-dimension", keep, "tp=2,zero=3", keep, "tp=2,zero=0"},
    {"experts-by-ep", moe, "ep=8,zero=3", keep, "ep=4,etp=2,zero=3"},
    {"experts-in-copy", moe, "ep=8,zero=3,shard=8", keep,
     "ep=8,zero=3,shard=4"},
    {"shard-holds-context", keep, "cp=4,zero=3,shard=8", keep,
     "cp=4,zero=3,shard=2"},
    {"offload-together", keep, "zero=3,offload=cpu+parameters", keep,
     "zero=3,offload=cpu"},
    {"context-by-ring", keep, "cp=2,zero=3", keep,
     "cp=2,zero=3,cp_type=ulysses"},
    {"sequence-divisor", sequence_2040, "cp=2,zero=3", keep,
     "cp=2,zero=3,tp=4,sp=1"},
    {"batches-fill-stages", keep, "pp=4,zero=3,micro=4", keep,
     "pp=4,zero=3,micro=8"},
    {"no-buckets", keep, "zero=3,comm=bf16", keep, "zero=3,bucket=5e7"},
    {"recompute-operations", keep, "zero=3,recompute=selective:op", keep,
     "zero=3,recompute=selective:norms"},
    {"recompute-operations", keep, "zero=3,recompute=full", keep,
     "zero=3,recompute=selective:mlp"},
    {"offload-without-pipeline", keep, "pp=2,zero=3", keep,
     "pp=2,zero=3,offload=cpu+parameters"},
    {"reduce-dtype", fp16, "zero=3,comm=fp16", keep, "zero=3,comm=bf16"},
    {"shard-dtype", pure, "zero=3",
     [](SettingCase& w) { w.workload.parameter = Precision::fp8; }, "zero=3"},
    {"states-follow-shards", pure_and_short, "zero=3", whole, "zero=3"},
    {"no-integer-shards", nf4, "zero=3", int8, "zero=3"},
    {"zero-bubble-chunks", keep, "pp=2,vpp=2,zero=2,schedule=zb-h1", keep,
     "pp=2,zero=2,schedule=zb-h1"},
    {"split-backward-recomputes", keep,
     "pp=2,vpp=2,zero=2,schedule=zb-h1,recompute=full", keep,
     "pp=2,vpp=2,zero=2,schedule=zb-h1,recompute=selective:op"},
    {"no-fp4", fp8, "zero=3", fp4, "zero=3"},
    {"fp8-shapes", fp8, "zero=3,micro=1", fp8_odd, "zero=3,micro=1"},
    {"flash-supported", keep, "zero=3", volta, "zero=3"},
};

}  // namespace

TEST_CASE("each rule of FSDP tells legal from illegal") {
  check_rules(find_engine("fsdp"), kRows);
}

// deepspeedai/DeepSpeed#3589: what DeepSpeed refuses for GPT-2 345M, tied.
TEST_CASE("a pipeline of FSDP stages is legal under each of its schedules") {
  SettingCase world = small_case();
  world.model.tied = true;
  for (const char* text :
       {"pp=4,zero=3", "pp=4,zero=2,schedule=gpipe", "pp=4,vpp=3,zero=3",
        "pp=2,zero=3,stages=ends", "pp=2,tp=2,sp=1,cp=2,zero=3",
        "pp=4,zero=3,recompute=full:2"}) {
    CAPTURE(std::string(text));
    CHECK(verdict(find_engine("fsdp"), world, text) == "legal");
  }
}
