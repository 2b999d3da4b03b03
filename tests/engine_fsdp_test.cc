#include <doctest/doctest.h>

#include "support/setting_case.h"

using namespace ztplan;

namespace {

void volta(SettingCase& w) {
  w.cluster.device.architecture = "Volta";
  w.workload.precision = Precision::fp16;
}

constexpr RuleRow kRows[] = {
    {"no-zero-1", keep, "zero=2", keep, "zero=1"},
    {"shard-dimension", keep, "tp=2,zero=3", keep, "tp=2,zero=0"},
    {"offload-together", keep, "zero=3,offload=cpu+parameters", keep,
     "zero=3,offload=cpu"},
    {"context-by-ring", keep, "cp=2,zero=3", keep,
     "cp=2,zero=3,cp_type=ulysses"},
    {"no-buckets", keep, "zero=3,comm=bf16", keep, "zero=3,bucket=5e7"},
    {"recompute-operations", keep, "zero=3,recompute=selective:op", keep,
     "zero=3,recompute=selective:activation"},
    {"offload-without-pipeline", keep, "pp=2,zero=3", keep,
     "pp=2,zero=3,offload=cpu+parameters"},
    {"flash-supported", keep, "zero=3", volta, "zero=3"},
};

}  // namespace

TEST_CASE("each rule of FSDP tells legal from illegal") {
  check_rules(find_engine("fsdp"), kRows);
}
