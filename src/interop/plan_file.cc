#include "interop/plan_file.h"

#include <limits>

#include "base/error.h"
#include "base/json.h"

namespace ztplan {
namespace {

int whole_or(const JsonView& view, const char* key, int missing) {
  return view.has(key)
             ? view.at(key).small_integer(1, std::numeric_limits<int>::max())
             : missing;
}

template <class Value>
void read_word(const JsonView& view, const char* key,
               Value (*parse)(std::string_view), auto& value) {
  if (view.has(key)) value = parse(view.at(key).string());
}

ClusterOverrides machine_of(const JsonView& view) {
  ClusterOverrides machine;
  machine.gpu = view.string_or("gpu", "");
  machine.network = view.string_or("network", "");
  machine.intra = view.string_or("intra", "");
  machine.p2p = view.string_or("p2p", "");
  machine.host_memory = view.string_or("host_memory", "");
  machine.nvme = view.string_or("nvme", "");
  machine.gpus_per_node = whole_or(view, "gpus_per_node", 0);
  return machine;
}

Request request_of(const JsonView& view) {
  Request request;
  request.model = view.at("model").string();
  request.cluster = view.string_or("cluster", "");
  request.calibration = view.string_or("calibration", "");
  request.engine_version = view.string_or("engine_version", "");
  request.machine = machine_of(view);
  request.gpus = whole_or(view, "gpus", 0);
  request.sequence = whole_or(view, "sequence", 0);
  request.global_batch = whole_or(view, "global_batch", 0);
  read_word(view, "precision", parse_precision, request.precision);
  read_word(view, "gradient", parse_dtype, request.gradient);
  read_word(view, "attention", parse_attention, request.attention);
  read_word(view, "optimizer", parse_optimizer, request.optimizer);
  read_word(view, "moments", parse_dtype, request.moments);
  read_word(view, "parameter", parse_dtype, request.parameter);
  read_word(view, "loss", parse_loss, request.loss);
  read_word(view, "adapters", parse_adapters, request.adapters);
  read_word(view, "quantize", parse_quantize, request.quantize);
  read_word(view, "loading", parse_loading, request.loading);
  read_word(view, "lengths", parse_lengths, request.lengths);
  if (view.has("expert_load"))
    request.expert_load = view.at("expert_load").number();
  if (view.has("slowest")) request.slowest = view.at("slowest").number();
  return request;
}

}  // namespace

PlanFile read_plan_file(const std::string& path) {
  const JsonView root = JsonView::load(path);
  const char* hint = "ztplan plan -o FILE writes one";
  if (!root.is_object() || !root.has("schema"))
    root.fail("this is no plan file", hint);
  if (!root.at("schema").string().starts_with("ztplan."))
    root.at("schema").fail("expected ztplan.plan/1", hint);
  if (!root.has("plans") || root.at("plans").size() == 0)
    root.fail("the file holds no plan", hint);
  if (!root.has("request"))
    root.fail("the file does not say what was asked", hint);
  const JsonView plan = root.at("plans")[0];
  PlanFile file{request_of(root.at("request")),
                parse_strategy(plan.at("strategy").at("text").string(), 0)};
  file.request.engine = plan.string_or("engine", "");
  // Of all that were asked for, --objective gpus or cost may take fewer.
  file.request.gpus = devices(file.strategy);
  return file;
}

}  // namespace ztplan
