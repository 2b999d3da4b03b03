#include "step/demand.h"

#include <fmt/format.h>

namespace ztplan {
namespace {

std::string_view name_of(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::all_reduce:
      return "all_reduce";
    case CollectiveOp::all_gather:
      return "all_gather";
    case CollectiveOp::reduce_scatter:
      return "reduce_scatter";
    case CollectiveOp::all_to_all:
      return "all_to_all";
    case CollectiveOp::send_receive:
      return "send_receive";
  }
  return "?";
}

std::string_view name_of(Channel channel) {
  switch (channel) {
    case Channel::host_to_device:
      return "host_to_device";
    case Channel::device_to_host:
      return "device_to_host";
    case Channel::nvme_read:
      return "nvme_read";
    case Channel::nvme_write:
      return "nvme_write";
  }
  return "?";
}

double of(std::int64_t count) { return static_cast<double>(count); }
double of(Bytes bytes) { return of(bytes.value); }

Demand demand(const Matmul& w) {
  const double batch = of(w.batch);
  const double m = of(w.m), n = of(w.n), k = of(w.k);
  return {
      fmt::format("product/{}", to_text(w.precision)),
      {batch, batch * m * n * k, batch * m * k, batch * k * n, batch * m * n},
      Input::products};
}

Demand demand(const AttentionWork& w) {
  const double scores = computed_scores(w);
  const double sizes = w.qk_size + w.v_size;
  const double heads = of(w.sequences) * w.heads;
  const double rows = heads * of(w.queries);
  const bool forward = w.direction == Direction::forward;
  const bool eager = w.kernel == AttentionKernel::eager;
  return {fmt::format("attention/{}/{}/{}", eager ? "eager" : "flash",
                      forward ? "forward" : "backward", to_text(w.precision)),
          {heads, rows, rows * sizes, scores, scores * sizes},
          Input::attention};
}

Demand demand(const Stream& w) {
  return {fmt::format("{}/{}", to_text(w.operation), to_text(w.precision)),
          {1, of(w.bytes)},
          Input::passes};
}

Demand demand(const Collective& w) {
  return {
      collective_probe(w.op, 1, ranks_of(w)), {1, of(w.bytes)}, Input::links};
}

Demand demand(const Transfer& w) {
  return {std::string(name_of(w.channel)), {1, of(w.bytes)}, Input::host};
}

Demand demand(const HostAdam& w) {
  return {"host_adam", {1, of(w.parameters)}, Input::host};
}

}  // namespace

Demand demand_of(const Work& work) {
  return std::visit([](const auto& kind) { return demand(kind); }, work);
}

std::string collective_probe(CollectiveOp op, int nodes, int per_node) {
  return nodes > 1 ? fmt::format("{}/{}x{}", name_of(op), nodes, per_node)
                   : fmt::format("{}/{}", name_of(op), per_node);
}

int ranks_of(const Work& work) {
  constexpr int kPair = 2;
  const auto* collective = std::get_if<Collective>(&work);
  if (collective == nullptr) return 1;
  return collective->op == CollectiveOp::send_receive ? kPair
                                                      : collective->group.size;
}

}  // namespace ztplan
