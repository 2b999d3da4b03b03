#include <fmt/format.h>

#include "base/quantity_text.h"
#include "report/answer.h"
#include "report/labelled.h"
#include "report/number_text.h"
#include "report/one_plan_json.h"
#include "report/render.h"
#include "report/summary.h"

namespace ztplan {
namespace {

Seconds step_of(const StageActivity& stage) { return stage.busy + stage.idle; }

void write_stages(JsonWriter& json, const std::vector<StageActivity>& stages) {
  json.key("stages").begin_array();
  for (const StageActivity& stage : stages) {
    json.begin_object().field("stage", stage.stage);
    json.field("tasks", stage.tasks).field("busy_seconds", stage.busy);
    json.field("idle_seconds", stage.idle);
    json.field("first_seconds", stage.first);
    json.field("last_seconds", stage.last).end_object();
  }
  json.end_array();
}

Table term_table(const StepTime& time) {
  Table table{{{"term"}, {"seconds", Align::right}, {"share", Align::right}},
              {}};
  for (int i = 0; i < kTimeTerms; ++i) {
    const auto term = static_cast<TimeTerm>(i);
    table.rows.push_back({std::string(to_text(term)),
                          fmt::format("{:.4f}", time[term].value),
                          share_text(time[term] / time.total())});
  }
  table.rows.push_back(
      {"step", fmt::format("{:.4f}", time.total().value), share_text(1)});
  return table;
}

Table stage_table(const std::vector<StageActivity>& stages) {
  Table table{{{"stage", Align::right},
               {"tasks", Align::right},
               {"busy s", Align::right},
               {"idle s", Align::right},
               {"idle", Align::right},
               {"first s", Align::right},
               {"last s", Align::right}},
              {}};
  for (const StageActivity& stage : stages) {
    const auto seconds = [](Seconds s) {
      return fmt::format("{:.4f}", s.value);
    };
    table.rows.push_back({fmt::format("{}", stage.stage),
                          fmt::format("{}", stage.tasks), seconds(stage.busy),
                          seconds(stage.idle),
                          share_text(stage.idle / step_of(stage)),
                          seconds(stage.first), seconds(stage.last)});
  }
  return table;
}

Table simulation_csv(const SimulateAnswer& answer) {
  Table table{{{"term"}, {"seconds"}}, {}};
  for (int i = 0; i < kTimeTerms; ++i) {
    const auto term = static_cast<TimeTerm>(i);
    table.rows.push_back({std::string(to_text(term)),
                          fmt::format("{}", answer.plan.time[term].value)});
  }
  table.rows.push_back(
      {"step", fmt::format("{}", answer.plan.time.total().value)});
  return table;
}

std::string traffic_sentence(const Traffic& traffic) {
  std::string out;
  for (const auto& [name, bytes] :
       {std::pair{"tensor", traffic.tensor}, std::pair{"data", traffic.data},
        std::pair{"pipeline", traffic.pipeline},
        std::pair{"context", traffic.context},
        std::pair{"expert", traffic.expert},
        std::pair{"offload", traffic.offload}}) {
    if (bytes.value == 0) continue;
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", name, text(bytes));
  }
  return out.empty() ? "nothing" : out + " a GPU";
}

std::vector<Labelled> verdict_lines(const SimulateAnswer& answer,
                                    const Style& style) {
  const Question& question = answer.asked.question;
  const Plan& plan = answer.plan;
  return {{"step", step_sentence(plan)},
          {"speed", speed_sentence(plan)},
          {"strategy",
           fmt::format("{} ({})", to_text(plan.strategy), plan.engine->name)},
          {painted(style, fit_of(question, plan)),
           memory_sentence(question, plan)}};
}

std::string simulation_text(const SimulateAnswer& answer,
                            const Showing& showing) {
  const Format format = showing.format;
  std::vector<Labelled> closing = {
      {"busiest", fmt::format("stage {}; its terms are the step's",
                              answer.plan.time.stage)},
      {"sent", traffic_sentence(answer.plan.traffic)}};
  if (answer.stages.empty())
    closing.push_back({"stages", "not listed: the step has too many passes"});
  add_warnings(answer.asked.question, answer.plan, closing);
  closing.push_back({"defaults", defaults_sentence(answer.asked.defaults)});
  if (showing.seconds) {
    closing.push_back({"took", text(Seconds{*showing.seconds})});
  }
  std::string out = title(answer.asked) + "\n" +
                    render_lines(verdict_lines(answer, showing.style), format);
  out += "\n" + render(term_table(answer.plan.time), format);
  if (!answer.stages.empty())
    out += "\n" + render(stage_table(answer.stages), format);
  return out + "\n" + render_lines(closing, format);
}

}  // namespace

std::string render_simulation(const SimulateAnswer& answer,
                              const Showing& showing) {
  if (showing.format == Format::csv) return render_csv(simulation_csv(answer));
  if (showing.format == Format::json) {
    return one_plan_json(
        "ztplan.simulate/1", answer.asked, answer.plan, showing,
        [&](JsonWriter& json) { write_stages(json, answer.stages); });
  }
  return simulation_text(answer, showing);
}

}  // namespace ztplan
