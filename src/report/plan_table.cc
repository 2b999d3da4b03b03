#include "report/plan_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "report/labelled.h"
#include "report/number_text.h"
#include "report/plan_json.h"
#include "search/evaluate.h"

namespace ztplan {
namespace {

using Cell = std::function<std::string(const Plan&)>;

// When a column is shown: `always`, or where plans differ; of those the last
// ones of the list below go first when the screen is too narrow.
enum class Show { always, differing };

struct PlanColumn {
  Column column;
  Show show;
  Cell cell;
};

std::string text_of(int value) { return fmt::format("{}", value); }

Cell size(int Strategy::*field) {
  return [field](const Plan& plan) { return text_of(plan.strategy.*field); };
}

Column right(const char* title) { return {title, Align::right}; }

// In the order of the table.
std::vector<PlanColumn> size_columns() {
  return {{right("tp"), Show::always, size(&Strategy::tensor)},
          {right("pp"), Show::always, size(&Strategy::pipeline)},
          {right("vpp"), Show::differing, size(&Strategy::virtual_stages)},
          {right("cp"), Show::differing, size(&Strategy::context)},
          {right("ep"), Show::differing, size(&Strategy::expert)},
          {right("etp"), Show::differing, size(&Strategy::expert_tensor)},
          {right("dp"), Show::always, size(&Strategy::data)},
          {right("zero"), Show::always, size(&Strategy::zero)},
          {right("micro"), Show::differing, size(&Strategy::micro_batch)},
          {{"recompute"},
           Show::always,
           [](const Plan& p) { return to_text(p.strategy.recompute); }},
          {{"offload"}, Show::differing, [](const Plan& p) {
             return to_text(p.strategy.offload);
           }}};
}

std::vector<PlanColumn> choice_columns() {
  return {
      {right("gpus"), Show::differing,
       [](const Plan& p) { return text_of(p.gpus); }},
      {{"schedule"},
       Show::differing,
       [](const Plan& p) { return std::string(to_text(p.strategy.schedule)); }},
      {{"engine"},
       Show::differing,
       [](const Plan& p) { return std::string(p.engine->name); }},
      {right("shard"), Show::differing, size(&Strategy::shard_group)},
      {right("sp"), Show::differing,
       [](const Plan& p) { return text_of(p.strategy.sequence_parallel); }},
      {{"cp_type"}, Show::differing, [](const Plan& p) {
         return std::string(to_text(p.strategy.context_kind));
       }}};
}

std::vector<PlanColumn> result_columns() {
  return {{right("GiB"), Show::always,
           [](const Plan& p) { return gib_text(p.memory.peak()); }},
          {right("step s"), Show::always,
           [](const Plan& p) { return three_digits(p.time.total().value); }},
          {right("MFU"), Show::always,
           [](const Plan& p) { return share_text(p.throughput.mfu); }}};
}

bool differs(const std::vector<Plan>& plans, const Cell& cell) {
  return std::ranges::any_of(plans, [&](const Plan& plan) {
    return cell(plan) != cell(plans.front());
  });
}

std::vector<PlanColumn> columns_for(const std::vector<Plan>& plans) {
  std::vector<PlanColumn> columns;
  for (const auto& group :
       {size_columns(), choice_columns(), result_columns()}) {
    for (const PlanColumn& column : group) {
      if (column.show == Show::always || differs(plans, column.cell)) {
        columns.push_back(column);
      }
    }
  }
  return columns;
}

Table table_of(const std::vector<Plan>& plans,
               const std::vector<PlanColumn>& columns) {
  Table table{{right("#")}, {}};
  for (const PlanColumn& shown : columns) {
    table.columns.push_back(shown.column);
  }
  for (std::size_t i = 0; i < plans.size(); ++i) {
    table.rows.push_back({fmt::format("{}", i + 1)});
    for (const PlanColumn& shown : columns) {
      table.rows[i].push_back(shown.cell(plans[i]));
    }
  }
  return table;
}

std::size_t width_of(const Table& table) {
  std::size_t width = 0;
  const std::string text = render_text(table);
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = text.find('\n', start);
    width = std::max(width, end - start);
    start = end + 1;
  }
  return width;
}

}  // namespace

Table plan_table(const std::vector<Plan>& plans) {
  std::vector<PlanColumn> columns = columns_for(plans);
  Table table = table_of(plans, columns);
  while (width_of(table) > kScreenWidth) {
    const auto last = std::ranges::find(columns.rbegin(), columns.rend(),
                                        Show::differing, &PlanColumn::show);
    if (last == columns.rend()) break;
    columns.erase(std::next(last).base());
    table = table_of(plans, columns);
  }
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
         exact(fits(question_of(question, p), p)), exact(p.memory.peak().value),
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
