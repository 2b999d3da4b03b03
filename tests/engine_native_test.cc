#include <doctest/doctest.h>

#include <vector>

#include "support/setting_case.h"

using namespace ztplan;

namespace {

Layer& layer(SettingCase& w) { return w.model.layers.front().layer; }

void alibi(SettingCase& w) { w.model.positions = Positions::alibi; }
void lion(SettingCase& w) { w.workload.optimizer = OptimizerKind::lion; }
void one_key_head(SettingCase& w) { layer(w).attention.kv_heads = 1; }
void half(SettingCase& w) { w.workload.precision = Precision::fp16; }
void experts(SettingCase& w) {
  FeedForward& f = layer(w).ffn;
  f.experts = 8;
  f.top_k = 2;
  f.expert_width = f.width;
  f.bias = false;
}

const std::vector<RuleRow> kRows{
    {"executed-model", keep, "tp=8", alibi, "tp=8"},
    {"executed-numbers", keep, "zero=3", lion, "zero=3"},
    {"executed-tuning", keep, "zero=1,overlap=0", keep, "zero=3,prefetch=1e7"},
    {"executed-tuning", keep, "zero=0,compress=topk:100", keep,
     "zero=0,compress=onebit"},
    {"executed-topk", keep, "zero=0,pp=2,cp=2,compress=topk", keep,
     "zero=1,compress=topk"},
    {"executed-topk", keep, "zero=0,compress=topk", keep,
     "zero=0,tp=2,compress=topk"},
    {"executed-topk", keep, "zero=0,compress=topk", half,
     "zero=0,compress=topk"},
    {"executed-recompute", keep, "recompute=selective:norms+activation", keep,
     "recompute=selective:op"},
    {"executed-recompute", keep, "recompute=selective:activation", keep,
     "recompute=selective:mlp"},
    {"executed-recompute", experts, "recompute=selective:norms", keep,
     "recompute=selective:norms+moe"},
    {"executed-offload", keep, "zero=3,offload=cpu+parameters", keep,
     "zero=3,offload=parameters:cpu"},
    {"executed-schedule", keep, "pp=2,zero=1,schedule=zb-h1", keep,
     "pp=2,zero=2,schedule=zb-h1"},
    {"executed-schedule", keep, "pp=2,schedule=zb-h2", keep,
     "pp=2,vpp=2,schedule=zb-h1"},
    {"executed-schedule", keep, "pp=2,schedule=zb-v", keep,
     "pp=2,schedule=dualpipe-v"},
    {"executed-schedule", keep,
     "pp=2,schedule=zb-h1,recompute=selective:attention", keep,
     "pp=2,schedule=zb-h1,recompute=selective:norms"},
    {"executed-key-heads", one_key_head, "dp=16", keep, "tp=2"},
    {"executed-expert-tensor", experts, "ep=2", keep, "ep=2,etp=2"},
    {"executed-experts", experts, "tp=2,sp=1,ep=2", keep, "tp=2,ep=2"},
};

}  // namespace

TEST_CASE("each rule of the executor tells legal from illegal") {
  check_rules(find_engine("native"), kRows);
}
