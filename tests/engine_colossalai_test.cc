#include <doctest/doctest.h>

#include "support/setting_case.h"

using namespace ztplan;

namespace {

void moe(SettingCase& w) { w.model = small_moe(); }
void fp32(SettingCase& w) {
  w.workload.precision = Precision::fp32;
  w.workload.attention = AttentionKernel::eager;
}
void one_pass(SettingCase& w) { w.workload.global_batch = 16; }
void four_passes(SettingCase& w) { w.workload.global_batch = 64; }
void lion(SettingCase& w) { w.workload.optimizer = OptimizerKind::lion; }
void volta(SettingCase& w) {
  w.cluster.device.architecture = "Volta";
  w.workload.precision = Precision::fp16;
}

constexpr RuleRow kRows[] = {
    {"zero-pipeline", keep, "pp=2,zero=1", keep, "pp=2,zero=2"},
    {"gemini-alone", keep, "zero=3,tp=2", fp32, "zero=3"},
    {"experts-zero-1", moe, "ep=8,zero=1", keep, "ep=8,zero=0"},
    {"experts-divide-data", moe, "ep=8,zero=1", keep, "ep=8,tp=8,sp=1,zero=1"},
    {"offload-to-host", keep, "zero=1,offload=cpu", keep,
     "zero=1,offload=nvme"},
    {"no-sync-at-stage-2", one_pass, "zero=2", four_passes, "zero=2"},
    {"no-gpipe", keep, "pp=2", keep, "pp=2,schedule=gpipe"},
    {"shard-without-pipeline", keep, "zero=1,shard=8", keep,
     "pp=2,zero=1,shard=4"},
    {"no-compression", keep, "bucket=1e7,comm=bf16", keep, "compress=topk"},
    {"recompute-layers-only", keep, "recompute=full", keep,
     "recompute=selective"},
    {"optimizer-known", keep, "zero=1", lion, "zero=1"},
    {"flash-supported", keep, "zero=1", volta, "zero=1"},
};

}  // namespace

TEST_CASE("each rule of Colossal-AI tells legal from illegal") {
  check_rules(find_engine("colossalai"), kRows);
}
