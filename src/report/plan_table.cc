#include "report/plan_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "report/number_text.h"
#include "report/plan_json.h"

namespace ztplan {
namespace {

using Cell = std::function<std::string(const Plan&)>;

struct PlanColumn {
  Column column;
  bool always;  // shown even when all plans agree
  Cell cell;
};

std::string text_of(int value) { return fmt::format("{}", value); }

Cell size(int Strategy::*field) {
  return [field](const Plan& plan) { return text_of(plan.strategy.*field); };
}

std::vector<PlanColumn> strategy_columns() {
  const auto right = [](const char* title) {
    return Column{title, Align::right};
  };
  return {
      {right("tp"), true, size(&Strategy::tensor)},
      {right("pp"), true, size(&Strategy::pipeline)},
      {right("vpp"), false, size(&Strategy::virtual_stages)},
      {right("cp"), false, size(&Strategy::context)},
      {right("ep"), false, size(&Strategy::expert)},
      {right("dp"), true, size(&Strategy::data)},
      {right("zero"), true, size(&Strategy::zero)},
      {right("shard"), false, size(&Strategy::shard_group)},
      {right("micro"), false, size(&Strategy::micro_batch)},
      {right("sp"), false,
       [](const Plan& p) { return text_of(p.strategy.sequence_parallel); }},
      {{"recompute"},
       true,
       [](const Plan& p) { return to_text(p.strategy.recompute); }},
      {{"offload"},
       false,
       [](const Plan& p) { return to_text(p.strategy.offload); }},
      {{"schedule"},
       false,
       [](const Plan& p) { return std::string(to_text(p.strategy.schedule)); }},
      {{"cp_type"},
       false,
       [](const Plan& p) {
         return std::string(to_text(p.strategy.context_kind));
       }},
      {{"engine"}, false, [](const Plan& p) { return p.engine->name; }},
      {right("gpus"), false, [](const Plan& p) { return text_of(p.gpus); }}};
}

std::vector<PlanColumn> result_columns() {
  return {{{"GiB", Align::right},
           true,
           [](const Plan& p) { return gib_text(p.memory.peak()); }},
          {{"step s", Align::right},
           true,
           [](const Plan& p) { return three_digits(p.time.total().value); }},
          {{"MFU", Align::right}, true, [](const Plan& p) {
             return share_text(p.throughput.mfu);
           }}};
}

bool differs(const std::vector<Plan>& plans, const Cell& cell) {
  return std::ranges::any_of(plans, [&](const Plan& plan) {
    return cell(plan) != cell(plans.front());
  });
}

}  // namespace

Table plan_table(const std::vector<Plan>& plans) {
  Table table{{{"#", Align::right}}, {}};
  for (std::size_t i = 0; i < plans.size(); ++i) {
    table.rows.push_back({fmt::format("{}", i + 1)});
  }
  const auto add = [&](const PlanColumn& shown) {
    if (!shown.always && !differs(plans, shown.cell)) return;
    table.columns.push_back(shown.column);
    for (std::size_t i = 0; i < plans.size(); ++i) {
      table.rows[i].push_back(shown.cell(plans[i]));
    }
  };
  std::ranges::for_each(strategy_columns(), add);
  std::ranges::for_each(result_columns(), add);
  return table;
}

Table plan_csv(const Question& question, const std::vector<Plan>& plans) {
  Table table;
  for (const char* title :
       {"rank", "strategy", "engine", "gpus", "fits", "peak_bytes",
        "capacity_bytes", "host_bytes", "nvme_bytes", "step_seconds",
        "low_seconds", "high_seconds", "tokens_per_second",
        "tokens_per_second_per_gpu", "mfu"}) {
    table.columns.push_back({title});
  }
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const Plan& p = plans[i];
    const auto exact = [](auto value) { return fmt::format("{}", value); };
    table.rows.push_back(
        {exact(i + 1), to_text(p.strategy), p.engine->name, exact(p.gpus),
         exact(fits(question, p)), exact(p.memory.peak().value),
         exact(p.capacity.value), exact(p.memory.host.value),
         exact(p.memory.nvme.value), exact(p.time.total().value),
         exact(p.low.value), exact(p.high.value),
         exact(p.throughput.tokens_per_second),
         exact(p.throughput.tokens_per_second_per_gpu),
         exact(p.throughput.mfu)});
  }
  return table;
}

}  // namespace ztplan
