#include <fmt/format.h>

#include <algorithm>

#include "base/quantity_text.h"
#include "report/answer.h"
#include "report/curve_text.h"
#include "report/labelled.h"
#include "report/memory_facts.h"
#include "report/number_text.h"
#include "report/one_plan_json.h"
#include "report/render.h"
#include "report/summary.h"

namespace ztplan {
namespace {

Bytes bytes_of(const MemoryBreakdown& memory, Term term) {
  if (term != Term::activations) return memory[term];
  return memory[Term::activations] + memory[Term::logits];
}

// JSON.

void write_holdings(JsonWriter& json, const Ledger& holdings) {
  json.key("holdings").begin_array();
  for (const Holding& holding : holdings) {
    json.begin_object().field("term", to_text(holding.term));
    json.field("tier", name_of(holding.tier)).field("bytes", holding.bytes);
    json.field("from", to_text(holding.from));
    json.field("until", to_text(holding.until));
    json.field("what", holding.what).field("source", holding.source);
    json.end_object();
  }
  json.end_array();
}

void write_curves(JsonWriter& json, const std::vector<StageCurve>& curves) {
  json.key("over_time").begin_array();
  for (const StageCurve& curve : curves) {
    json.begin_object().field("stage", curve.stage);
    json.key("points").begin_array();
    for (const CurvePoint& point : curve.points) {
      json.begin_object().field("seconds", point.time);
      json.field("phase", to_text(point.phase));
      json.field("bytes", point.bytes).end_object();
    }
    json.end_array().end_object();
  }
  json.end_array();
}

std::string memory_json(const MemoryAnswer& answer, const MemoryFacts& facts,
                        const Showing& showing) {
  return one_plan_json("ztplan.memory/1", answer.asked, answer.plan, showing,
                       [&](JsonWriter& json) {
                         write_holdings(json, facts.holdings);
                         if (answer.curves.empty()) return;
                         write_curves(json, answer.curves);
                       });
}

// Tables.

constexpr Term kTermsShown[] = {
    Term::parameters, Term::gradients, Term::optimizer, Term::activations,
    Term::gathered,   Term::buffers,   Term::overhead};

Table term_table(const MemoryBreakdown& memory) {
  Table table{{{"term"}, {"GiB", Align::right}, {"share", Align::right}}, {}};
  const auto add = [&](std::string name, Bytes bytes) {
    table.rows.push_back({std::move(name), fmt::format("{:.2f}", gib(bytes)),
                          share_text(bytes / memory.peak())});
  };
  for (const Term term : kTermsShown) {
    add(std::string(to_text(term)), bytes_of(memory, term));
    const bool logits =
        term == Term::activations && memory[Term::logits].value > 0;
    if (logits) add("  of it logits", memory[Term::logits]);
  }
  add("peak", memory.peak());
  return table;
}

bool is_held(const std::vector<MemoryBreakdown>& stages, Term term) {
  return std::ranges::any_of(stages, [&](const MemoryBreakdown& stage) {
    return bytes_of(stage, term).value > 0;
  });
}

Table stage_table(const std::vector<MemoryBreakdown>& stages) {
  Table table{{{"stage", Align::right}, {"GiB", Align::right}, {"in"}}, {}};
  for (const MemoryBreakdown& stage : stages) {
    table.rows.push_back({fmt::format("{}", stage.stage),
                          gib_text(stage.peak()),
                          std::string(to_text(stage.peak_phase))});
  }
  for (const Term term : kTermsShown) {
    if (!is_held(stages, term)) continue;
    table.columns.push_back({std::string(to_text(term)), Align::right});
    for (std::size_t i = 0; i < stages.size(); ++i) {
      table.rows[i].push_back(gib_text(bytes_of(stages[i], term)));
    }
  }
  return table;
}

Table holding_table(const Ledger& holdings) {
  Table table{{{"bytes", Align::right},
               {"term"},
               {"tier"},
               {"phases"},
               {"what"},
               {"source"}},
              {}};
  for (const Holding& holding : holdings) {
    table.rows.push_back(
        {text(holding.bytes), std::string(to_text(holding.term)),
         std::string(name_of(holding.tier)),
         fmt::format("{}-{}", to_text(holding.from), to_text(holding.until)),
         holding.what, holding.source});
  }
  return table;
}

Table memory_csv(const std::vector<MemoryBreakdown>& stages) {
  Table table{{{"stage"}, {"peak_bytes"}}, {}};
  for (const Term term : kTermsShown) {
    table.columns.push_back({fmt::format("{}_bytes", to_text(term))});
  }
  for (const char* title : {"logits_bytes", "host_bytes", "nvme_bytes"}) {
    table.columns.push_back({title});
  }
  const auto exact = [](Bytes bytes) { return fmt::format("{}", bytes.value); };
  for (const MemoryBreakdown& stage : stages) {
    std::vector<std::string> row = {fmt::format("{}", stage.stage),
                                    exact(stage.peak())};
    for (const Term term : kTermsShown) {
      row.push_back(exact(bytes_of(stage, term)));
    }
    row.push_back(exact(stage[Term::logits]));
    row.push_back(exact(stage.host));
    row.push_back(exact(stage.nvme));
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table curve_csv(const std::vector<StageCurve>& curves) {
  Table table{{{"stage"}, {"seconds"}, {"phase"}, {"bytes"}}, {}};
  for (const StageCurve& curve : curves)
    for (const CurvePoint& point : curve.points)
      table.rows.push_back({fmt::format("{}", curve.stage),
                            fmt::format("{}", point.time.value),
                            std::string(to_text(point.phase)),
                            fmt::format("{}", point.bytes.value)});
  return table;
}

std::vector<Labelled> verdict_lines(const MemoryAnswer& answer,
                                    const Style& style) {
  const Question& question = answer.asked.question;
  const Plan& plan = answer.plan;
  return {
      {painted(style, fit_of(question, plan)), memory_sentence(question, plan)},
      {"strategy",
       fmt::format("{} ({})", to_text(plan.strategy), plan.engine->name)},
      {"peak", fmt::format("stage {} in {}", plan.memory.stage,
                           to_text(plan.memory.peak_phase))}};
}

std::vector<Labelled> fact_lines(const MemoryAnswer& answer,
                                 const MemoryFacts& facts) {
  const Question& question = answer.asked.question;
  const MemoryBreakdown& memory = answer.plan.memory;
  std::vector<Labelled> lines = {
      {"meters", fmt::format("states {}, allocated {}, reserved {}, driver {}",
                             text(facts.states), text(facts.allocated),
                             text(facts.reserved), text(facts.device_used))},
      {"loading",
       fmt::format("{} before the first step, {} while a checkpoint is saved",
                   text(facts.load.device), text(facts.save.device))},
      {"a layer", fmt::format("keeps {} of one micro-batch",
                              text(facts.activation_per_layer))},
      {"largest", fmt::format("tensor: {}, {}", facts.largest_tensor.name,
                              text(facts.largest_tensor.bytes))}};
  if (memory.host.value > 0) {
    const std::string rounding =
        memory.host_rounding.value > 0
            ? fmt::format(" and {} of pinned blocks' rounding",
                          text(memory.host_rounding))
            : "";
    const Bytes node = node_bytes(host_taken(memory), question.cluster);
    lines.push_back(
        {"host",
         fmt::format("{}{} a GPU, {} of {} a node", text(memory.host), rounding,
                     text(node), text(question.cluster.host.memory))});
  }
  if (memory.nvme.value > 0) {
    lines.push_back(
        {"nvme", fmt::format("{} a GPU, {} of {} a node", text(memory.nvme),
                             text(node_bytes(memory.nvme, question.cluster)),
                             text(question.cluster.host.nvme))});
  }
  return lines;
}

std::string curve_lines(const MemoryAnswer& answer, const Showing& showing) {
  std::string out;
  for (const StageCurve& curve : answer.curves) {
    const bool fullest = curve.stage == answer.plan.memory.stage;
    if (!fullest && !showing.style.verbose) continue;
    out += fmt::format("\nstage {} over a step (# all the while, : at times)\n",
                       curve.stage);
    const std::string drawn =
        draw_curve(curve.points, answer.plan.time.total());
    out += showing.format == Format::md ? "```\n" + drawn + "```\n" : drawn;
  }
  return out;
}

std::string memory_text(const MemoryAnswer& answer, const MemoryFacts& facts,
                        const Showing& showing) {
  const Format format = showing.format;
  std::vector<Labelled> closing = fact_lines(answer, facts);
  add_warnings(answer.asked.question, answer.plan, closing);
  closing.push_back({"defaults", defaults_sentence(answer.asked.defaults)});
  if (showing.seconds) {
    closing.push_back({"took", text(Seconds{*showing.seconds})});
  }
  std::string out = title(answer.asked) + "\n" +
                    render_lines(verdict_lines(answer, showing.style), format);
  out += "\n" + render(term_table(answer.plan.memory), format);
  if (answer.plan.stages.size() > 1) {
    out += "\n" + render(stage_table(answer.plan.stages), format);
  }
  out += curve_lines(answer, showing);
  if (showing.style.verbose) {
    out += "\n" + render(holding_table(facts.holdings), format);
  }
  return out + "\n" + render_lines(closing, format);
}

}  // namespace

std::string render_memory(const MemoryAnswer& answer, const Showing& showing) {
  if (showing.format == Format::csv) {
    return render_csv(answer.curves.empty() ? memory_csv(answer.plan.stages)
                                            : curve_csv(answer.curves));
  }
  const MemoryFacts facts = memory_facts(answer.asked.question, answer.plan);
  if (showing.format == Format::json) {
    return memory_json(answer, facts, showing);
  }
  return memory_text(answer, facts, showing);
}

}  // namespace ztplan
