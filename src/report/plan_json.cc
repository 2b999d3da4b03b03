#include "report/plan_json.h"

#include "report/memory_facts.h"
#include "search/evaluate.h"
#include "search/interval.h"
#include "search/warnings.h"

namespace ztplan {
namespace {

void write_stages(JsonWriter& json, const std::vector<MemoryBreakdown>& all) {
  json.key("stages").begin_array();
  for (const MemoryBreakdown& stage : all) {
    json.begin_object().field("stage", stage.stage);
    json.field("peak_bytes", stage.peak());
    json.field("peak_phase", to_text(stage.peak_phase));
    write_terms(json, stage);
    json.field("host_bytes", stage.host).field("nvme_bytes", stage.nvme);
    json.end_object();
  }
  json.end_array();
}

// What only the driver sees: context and communicators.
void write_driver_holdings(JsonWriter& json, const Ledger& holdings) {
  json.key("driver_holdings").begin_array();
  for (const Holding& holding : holdings) {
    if (holding.meter != Meter::driver) continue;
    json.begin_object().field("what", holding.what);
    json.field("bytes", holding.bytes).end_object();
  }
  json.end_array();
}

void write_facts(JsonWriter& json, const MemoryFacts& facts) {
  json.field("state_bytes", facts.states);
  json.field("allocated_bytes", facts.allocated);
  json.field("reserved_bytes", facts.reserved);
  json.field("device_used_bytes", facts.device_used);
  write_driver_holdings(json, facts.holdings);
  json.field("load_peak_bytes", facts.load.device);
  json.field("load_host_bytes_per_node", facts.load.host);
  json.field("save_peak_bytes", facts.save.device);
  json.field("save_host_bytes_per_node", facts.save.host);
  json.field("activation_bytes_per_layer", facts.activation_per_layer);
  json.key("largest_tensor").begin_object();
  json.field("name", facts.largest_tensor.name);
  json.field("bytes", facts.largest_tensor.bytes).end_object();
}

void write_memory(JsonWriter& json, const Question& question,
                  const Plan& plan) {
  json.key("memory").begin_object();
  json.field("peak_bytes", plan.memory.peak());
  const PeakInterval peak = peak_interval(plan.memory.peak(), Meter::driver);
  json.field("low_peak_bytes", peak.low).field("high_peak_bytes", peak.high);
  json.field("capacity_bytes", plan.capacity);
  json.field("fits", fits(question, plan));
  write_terms(json, plan.memory);
  json.field("host_bytes", plan.memory.host);
  json.field("host_rounding_bytes", plan.memory.host_rounding);
  json.field("nvme_bytes", plan.memory.nvme);
  json.field("peak_stage", plan.memory.stage);
  json.field("peak_phase", to_text(plan.memory.peak_phase));
  write_facts(json, memory_facts(question, plan));
  write_stages(json, plan.stages);
  json.end_object();
}

void write_time(JsonWriter& json, const Plan& plan) {
  const StepTime& time = plan.time;
  json.key("time").begin_object().field("step_seconds", time.total());
  json.field("low_seconds", plan.low).field("high_seconds", plan.high);
  json.field("compute_seconds", time[TimeTerm::compute]);
  json.field("tensor_comm_seconds", time[TimeTerm::tensor_comm]);
  json.field("context_comm_seconds", time[TimeTerm::context_comm]);
  json.field("expert_comm_seconds", time[TimeTerm::expert_comm]);
  json.field("data_comm_seconds", time[TimeTerm::data_comm]);
  json.field("pipeline_comm_seconds", time[TimeTerm::pipeline_comm]);
  json.field("offload_seconds", time[TimeTerm::offload]);
  json.field("optimizer_seconds", time[TimeTerm::optimizer]);
  json.field("bubble_seconds", time[TimeTerm::bubble]);
  json.field("busiest_stage", time.stage).end_object();
}

void write_throughput(JsonWriter& json, const Throughput& t) {
  constexpr double kTera = 1e12;
  json.key("throughput").begin_object();
  json.field("tokens_per_second", t.tokens_per_second);
  json.field("tokens_per_second_per_gpu", t.tokens_per_second_per_gpu);
  json.field("model_tflops_per_gpu", t.model_per_gpu.value / kTera);
  json.field("hardware_tflops_per_gpu", t.hardware_per_gpu.value / kTera);
  json.field("mfu", t.mfu).field("hfu", t.hfu).end_object();
}

}  // namespace

void write_traffic(JsonWriter& json, const Traffic& traffic) {
  json.key("traffic").begin_object().field("tensor_bytes", traffic.tensor);
  json.field("data_bytes", traffic.data);
  json.field("gradient_bytes", traffic.gradients);
  json.field("pipeline_bytes", traffic.pipeline);
  json.field("context_bytes", traffic.context);
  json.field("expert_bytes", traffic.expert);
  json.field("offload_bytes", traffic.offload).end_object();
}

bool fits(const Question& question, const Plan& plan) {
  return !shortage(question, plan.memory);
}

void write_strategy(JsonWriter& json, const Strategy& s) {
  json.begin_object().field("text", to_text(s)).field("tp", s.tensor);
  json.field("pp", s.pipeline).field("vpp", s.virtual_stages);
  json.field("cp", s.context).field("ep", s.expert);
  json.field("etp", s.expert_tensor).field("dp", s.data);
  json.field("sp", s.sequence_parallel).field("zero", s.zero);
  json.field("offload", to_text(s.offload));
  json.field("recompute", to_text(s.recompute));
  json.field("micro_batch", s.micro_batch);
  json.field("schedule", to_text(s.schedule)).end_object();
}

void write_findings(JsonWriter& json, const char* key,
                    const std::vector<Finding>& findings) {
  json.key(key).begin_array();
  for (const Finding& finding : findings) {
    json.begin_object().field("severity", to_text(finding.severity));
    json.field("rule", finding.rule).field("key", finding.key);
    json.field("detail", finding.detail).field("remedy", finding.remedy);
    json.field("source", finding.source).end_object();
  }
  json.end_array();
}

void write_misfits(JsonWriter& json, const std::vector<Misfit>& misfits) {
  json.key("misfits").begin_array();
  for (const Misfit& misfit : misfits) {
    json.begin_object().field("rule", misfit.rule);
    json.field("detail", misfit.detail).field("nearest", misfit.nearest);
    json.field("engine", misfit.engine).field("source", misfit.source);
    json.end_object();
  }
  json.end_array();
}

void write_terms(JsonWriter& json, const MemoryBreakdown& memory) {
  json.field("parameters_bytes", memory[Term::parameters]);
  json.field("gradients_bytes", memory[Term::gradients]);
  json.field("optimizer_bytes", memory[Term::optimizer]);
  json.field("activations_bytes",
             memory[Term::activations] + memory[Term::logits]);
  json.field("logits_bytes", memory[Term::logits]);
  json.field("gathered_bytes", memory[Term::gathered]);
  json.field("buffers_bytes", memory[Term::buffers]);
  json.field("overhead_bytes", memory[Term::overhead]);
}

void write_plan(JsonWriter& json, const Question& question, const Plan& plan,
                int rank) {
  json.begin_object().field("rank", rank).field("engine", plan.engine->name);
  json.field("gpus", plan.gpus).key("strategy");
  write_strategy(json, plan.strategy);
  write_memory(json, question, plan);
  write_time(json, plan);
  write_throughput(json, plan.throughput);
  write_traffic(json, plan.traffic);
  write_findings(json, "warnings", warnings(question, plan));
  json.end_object();
}

}  // namespace ztplan
