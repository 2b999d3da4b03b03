#include <fmt/format.h>

#include <cmath>

#include "base/quantity_text.h"
#include "report/gpus_answer.h"
#include "report/labelled.h"
#include "report/memory_facts.h"
#include "report/number_text.h"
#include "report/one_plan_json.h"
#include "report/plan_json.h"
#include "report/render.h"
#include "report/summary.h"

namespace ztplan {
namespace {

constexpr double kHoursPerDay = 24;
constexpr double kSecondsPerDay = 86400;

/// Days and USD of the token budget; 0 where they cannot be said.
struct Bill {
  double days = 0, dollars = 0;
};

double price_of(const GpusAnswer& answer, const ClusterSpec& cluster) {
  if (answer.price > 0) return answer.price;
  if (cluster.price_per_node_hour > 0)
    return cluster.price_per_node_hour / cluster.devices_per_node;
  return cluster.device.price_per_hour;
}

Bill bill_of(const GpusAnswer& answer, const GpuCount& count) {
  Bill bill;
  if (answer.tokens <= 0 || !count.plan) return bill;
  bill.days =
      answer.tokens / count.plan->throughput.tokens_per_second / kSecondsPerDay;
  bill.dollars = bill.days * kHoursPerDay * count.gpus *
                 price_of(answer, count.asked.question.cluster);
  return bill;
}

/// Optimizer states that all hosts hold together.
Bytes optimizer_on_hosts(const GpuCount& count) {
  const Question& question = count.asked.question;
  const Plan& plan = *count.plan;
  const Setting setting{question.model, question.cluster, question.workload};
  const LayerKinds kinds = layer_kinds(question.model);
  const StageSizes sizes =
      stage_sizes(setting, *plan.engine, kinds, plan.strategy);
  const auto shapes = stage_shapes(kinds, plan.strategy);
  Bytes sum;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const Ledger book = ledger(setting, *plan.engine, sizes, shapes[i],
                               plan.strategy, static_cast<int>(i));
    for (const Holding& holding : book)
      if (holding.tier == Tier::host && holding.term == Term::optimizer)
        sum += holding.bytes;
  }
  const int ranks = plan.gpus / plan.strategy.pipeline;
  return sum * ranks;
}

void write_count(JsonWriter& json, const char* key, const GpusAnswer& answer,
                 const std::optional<GpuCount>& count) {
  if (!count || !count->plan) return;
  const Question& question = count->asked.question;
  const Plan& plan = *count->plan;
  const Bill bill = bill_of(answer, *count);
  json.key(key).begin_object().field("gpus", count->gpus);
  json.field("nodes",
             divide_up(count->gpus, question.cluster.devices_per_node));
  json.field("verdict", to_text(count->fit));
  json.field("state_bytes", states_of(plan));
  json.field("host_bytes_per_node",
             node_bytes(host_taken(plan.memory), question.cluster));
  json.field("optimizer_bytes_on_hosts", optimizer_on_hosts(*count));
  if (answer.tokens > 0) json.field("days", bill.days);
  if (bill.dollars > 0) json.field("cost_usd", bill.dollars);
  json.key("plan");
  write_plan(json, question, plan, 1);
  json.end_object();
}

std::string gpus_json(const GpusAnswer& answer, const Showing& showing) {
  JsonWriter json(JsonWriter::Layout::indented);
  json.begin_object().field("schema", "ztplan.gpus/1");
  if (answer.tokens > 0) json.field("tokens", answer.tokens);
  json.key("cards").begin_array();
  for (const GpuAnswer& card : answer.cards) {
    json.begin_object().field("gpu", card.gpu);
    if (!card.problem.empty()) json.field("problem", card.problem);
    write_count(json, "fewest", answer, card.fewest);
    write_count(json, "comfortable", answer, card.comfortable);
    write_count(json, "offloaded", answer, card.offloaded);
    write_count(json, "below", answer, card.below);
    json.end_object();
  }
  json.end_array();
  write_timing(json, showing);
  json.end_object();
  return json.take();
}

/// One count that is shown: of which card, and why it is.
struct Shown {
  const std::string& gpu;
  const char* what;
  const GpuCount& count;
};

std::vector<Shown> shown_counts(const GpusAnswer& answer) {
  std::vector<Shown> all;
  for (const GpuAnswer& card : answer.cards) {
    const auto add = [&](const char* what,
                         const std::optional<GpuCount>& count) {
      if (count && count->plan) all.push_back({card.gpu, what, *count});
    };
    add("below", card.below);
    add("fewest", card.fewest);
    add("comfortable", card.comfortable);
    add("offload", card.offloaded);
  }
  return all;
}

Bytes on_hosts(const GpuCount& count) {
  return node_bytes(host_taken(count.plan->memory),
                    count.asked.question.cluster);
}

Table table_of(const GpusAnswer& answer) {
  Table table{{{"gpu"},
               {"what"},
               {"GPUs", Align::right},
               {"verdict"},
               {"GiB", Align::right},
               {"states", Align::right},
               {"host/node", Align::right},
               {"step", Align::right},
               {"days", Align::right},
               {"USD", Align::right}},
              {}};
  for (const Shown& shown : shown_counts(answer)) {
    const Plan& plan = *shown.count.plan;
    const Bill bill = bill_of(answer, shown.count);
    table.rows.push_back(
        {shown.gpu, shown.what, fmt::format("{}", shown.count.gpus),
         std::string(to_text(shown.count.fit)), gib_text(plan.memory.peak()),
         gib_text(states_of(plan)), gib_text(on_hosts(shown.count)),
         text(plan.time.total()), bill.days > 0 ? three_digits(bill.days) : "",
         bill.dollars > 0 ? fmt::format("{:.0f}", bill.dollars) : ""});
  }
  return table;
}

Table exact_table(const GpusAnswer& answer) {
  Table table{{{"gpu"},
               {"what"},
               {"gpus"},
               {"verdict"},
               {"strategy"},
               {"engine"},
               {"peak_bytes"},
               {"states_bytes"},
               {"host_bytes_per_node"},
               {"step_seconds"},
               {"days"},
               {"cost_usd"}},
              {}};
  const auto exact = [](auto value) { return fmt::format("{}", value); };
  for (const Shown& shown : shown_counts(answer)) {
    const Plan& plan = *shown.count.plan;
    const Bill bill = bill_of(answer, shown.count);
    table.rows.push_back(
        {shown.gpu, shown.what, exact(shown.count.gpus),
         std::string(to_text(shown.count.fit)), to_text(plan.strategy),
         plan.engine->name, exact(plan.memory.peak().value),
         exact(states_of(plan).value), exact(on_hosts(shown.count).value),
         exact(plan.time.total().value), bill.days > 0 ? exact(bill.days) : "",
         bill.dollars > 0 ? exact(bill.dollars) : ""});
  }
  return table;
}

const GpuCount* any_count(const GpusAnswer& answer) {
  for (const GpuAnswer& card : answer.cards)
    if (card.fewest) return &*card.fewest;
  return nullptr;
}

std::vector<Labelled> lines_of(const GpusAnswer& answer) {
  std::vector<Labelled> lines;
  for (const GpuAnswer& card : answer.cards) {
    if (!card.problem.empty()) {
      lines.push_back({card.gpu, card.problem});
      continue;
    }
    const GpuCount& fewest = *card.fewest;
    const bool has_room = fewest.fit == Fit::fits;
    std::string told =
        fmt::format("{} {}", fewest.gpus, has_room ? "fit" : "tight");
    if (card.comfortable)
      told +=
          fmt::format("; {} in whole nodes with room", card.comfortable->gpus);
    if (card.offloaded)
      told += fmt::format("; or {} with {} of optimizer states on the hosts",
                          card.offloaded->gpus,
                          text(optimizer_on_hosts(*card.offloaded)));
    lines.push_back({card.gpu, told});
    lines.push_back({"", to_text(fewest.plan->strategy) + " (" +
                             fewest.plan->engine->name + ")"});
  }
  if (const GpuCount* count = any_count(answer))
    lines.push_back({"defaults", defaults_sentence(count->asked.defaults)});
  return lines;
}

}  // namespace

std::string render_gpus(const GpusAnswer& answer, const Showing& showing) {
  if (showing.format == Format::json) return gpus_json(answer, showing);
  if (showing.format == Format::csv) return render_csv(exact_table(answer));
  return render_lines(lines_of(answer), showing.format) + "\n" +
         render(table_of(answer), showing.format);
}

}  // namespace ztplan
