#include "report/question_json.h"

#include "strategy/ledger.h"

namespace ztplan {
namespace {

void write_model(JsonWriter& json, const ModelSpec& model) {
  json.key("model").begin_object().field("name", model.name);
  json.field("parameters", parameters(model));
  json.field("active_parameters", active_parameters(model));
  json.field("layers", layer_count(model)).field("hidden", model.hidden);
  json.field("vocab", model.vocab).field("source", model.source).end_object();
}

void write_cluster(JsonWriter& json, const ClusterSpec& cluster) {
  json.key("cluster").begin_object().field("name", cluster.name);
  json.field("gpus", cluster.devices);
  json.field("gpus_per_node", cluster.devices_per_node);
  json.field("memory_bytes_per_gpu", cluster.device.memory);
  json.field("usable_bytes_per_gpu", usable_memory(cluster, 0));
  json.field("gpu", cluster.device.id);
  json.field("host_bytes_per_node", cluster.host.memory);
  json.field("nvme_bytes_per_node", cluster.host.nvme).end_object();
}

void write_workload(JsonWriter& json, const Workload& workload) {
  json.key("workload").begin_object().field("sequence", workload.sequence);
  json.field("global_batch", workload.global_batch);
  json.field("precision", to_text(workload.precision));
  json.field("engine", workload.engine);
  json.field("engine_version", workload.framework.id);
  json.field("gradient_precision", to_text(workload.gradient));
  json.field("attention", to_text(workload.attention)).end_object();
}

void write_text(JsonWriter& json, const char* key, std::string_view text) {
  if (!text.empty()) json.field(key, text);
}

// What the question is asked again with: names as they were given, numbers as
// they were resolved. Read by interop/plan_file.
void write_request(JsonWriter& json, const Asked& asked) {
  const Request& request = asked.request;
  const Workload& workload = asked.question.workload;
  const ClusterOverrides& machine = request.machine;
  json.key("request").begin_object().field("model", request.model);
  write_text(json, "cluster", request.cluster);
  write_text(json, "calibration", request.calibration);
  write_text(json, "gpu", machine.gpu);
  write_text(json, "network", machine.network);
  write_text(json, "intra", machine.intra);
  write_text(json, "p2p", machine.p2p);
  write_text(json, "host_memory", machine.host_memory);
  write_text(json, "nvme", machine.nvme);
  const int per_node = given_per_node(asked);
  if (per_node > 0) json.field("gpus_per_node", per_node);
  json.field("engine_version", workload.framework.file);
  json.field("gpus", asked.question.cluster.devices);
  json.field("sequence", workload.sequence);
  json.field("global_batch", workload.global_batch);
  json.field("precision", to_text(workload.precision));
  json.field("gradient", to_text(workload.gradient));
  json.field("attention", to_text(workload.attention));
  json.field("optimizer", to_text(workload.optimizer));
  json.field("moments", to_text(workload.moments));
  if (workload.parameter) json.field("parameter", to_text(*workload.parameter));
  if (workload.loss) json.field("loss", to_text(*workload.loss));
  json.field("adapters", to_text(workload.adapters));
  json.field("quantize", to_text(workload.quantize));
  json.field("loading", to_text(workload.loading));
  json.field("lengths", to_text(workload.lengths));
  if (workload.expert_load > 1) json.field("expert_load", workload.expert_load);
  if (request.slowest < 1) json.field("slowest", request.slowest);
  json.end_object();
}

void write_defaults(JsonWriter& json, const std::vector<Default>& defaults) {
  json.key("defaults").begin_array();
  for (const Default& taken : defaults) {
    json.begin_object().field("option", taken.option);
    json.field("value", taken.value).field("reason", taken.reason);
    json.end_object();
  }
  json.end_array();
}

}  // namespace

void write_question(JsonWriter& json, const Asked& asked) {
  write_model(json, asked.question.model);
  write_cluster(json, asked.question.cluster);
  write_workload(json, asked.question.workload);
  write_defaults(json, asked.defaults);
  write_request(json, asked);
}

}  // namespace ztplan
