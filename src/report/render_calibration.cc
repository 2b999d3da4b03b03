#include "report/render_calibration.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json_writer.h"
#include "base/quantity_text.h"
#include "base/table.h"
#include "report/summary.h"

namespace ztplan {
namespace {

std::string percent(double share) {
  return fmt::format("{:.0f} %", 100 * share);
}

Table table_of(const MeasuredMachine& machine) {
  Table table{{{"probe"},
               {"samples", Align::right},
               {"shortest", Align::right},
               {"longest", Align::right},
               {"within", Align::right}},
              {}};
  for (const auto& [probe, curve] : machine.curves) {
    const auto [least, most] =
        std::ranges::minmax(curve.samples, {}, &Sample::median);
    table.rows.push_back({probe, fmt::format("{}", curve.samples.size()),
                          text(least.median), text(most.median),
                          percent(curve.spread)});
  }
  return table;
}

std::string sharing_line(const MeasuredMachine& machine) {
  if (machine.sharing.empty()) return {};
  std::string line = "ranks at once    time of each over the time alone:";
  for (std::size_t i = 0; i < machine.sharing.size(); ++i)
    line += fmt::format(" {}: {:.2f}", i + 1, machine.sharing[i]);
  return line + "\n";
}

std::string json_of(const MeasuredMachine& machine, const std::string& path) {
  JsonWriter json(JsonWriter::Layout::indented);
  json.begin_object().field("schema", "ztplan.calibrate/1");
  json.field("file", path).field("device", machine.device);
  json.field("processor", machine.processor).field("cores", machine.cores);
  json.field("date", machine.date).field("complete", machine.complete);
  json.key("probes").begin_array();
  for (const auto& [probe, curve] : machine.curves)
    json.begin_object()
        .field("probe", probe)
        .field("samples", curve.samples.size())
        .field("spread", curve.spread)
        .end_object();
  json.end_array().end_object();
  return json.take();
}

std::string refinement_json(const MeasuredMachine& before,
                            const MeasuredMachine& after,
                            const std::string& path) {
  JsonWriter json(JsonWriter::Layout::indented);
  json.begin_object().field("schema", "ztplan.refine/1").field("file", path);
  json.field("runs", after.runs).field("run_spread", after.run_spread);
  json.key("step_factors").begin_array();
  for (int ranks = 1; ranks <= static_cast<int>(after.step_factors.size());
       ++ranks)
    json.begin_object()
        .field("ranks", ranks)
        .field("before", step_factor(before, ranks))
        .field("after", step_factor(after, ranks))
        .end_object();
  json.end_array().end_object();
  return json.take();
}

std::string drift_json(const DriftAnswer& answer) {
  JsonWriter json(JsonWriter::Layout::indented);
  json.begin_object().field("schema", "ztplan.drift/1");
  json.field("file", answer.path).field("probes", answer.probes);
  json.key("moved").begin_array();
  for (const MovedProbe& moved : answer.moved)
    json.begin_object()
        .field("probe", moved.probe)
        .field("before_seconds", moved.before)
        .field("now_seconds", moved.now)
        .end_object();
  json.end_array().end_object();
  return json.take();
}

}  // namespace

std::string render_calibration(const MeasuredMachine& machine,
                               const std::string& path,
                               const Showing& showing) {
  const Table table = table_of(machine);
  switch (showing.format) {
    case Format::json:
      return json_of(machine, path);
    case Format::csv:
      return render_csv(table);
    case Format::md:
      return render_markdown(table);
    case Format::table:
      break;
  }
  return fmt::format("{} of {}, {} cores{}\n{}{}", path, machine.processor,
                     machine.cores,
                     machine.complete || machine.sharing.empty()
                         ? ""
                         : ", interrupted: --resume goes on",
                     sharing_line(machine), render_text(table));
}

std::string render_refinement(const MeasuredMachine& before,
                              const MeasuredMachine& after,
                              const std::string& path, const Showing& showing) {
  if (showing.format == Format::json)
    return refinement_json(before, after, path);
  Table table{{{"ranks", Align::right},
               {"step over probes, before", Align::right},
               {"after", Align::right}},
              {}};
  for (int ranks = 1; ranks <= static_cast<int>(after.step_factors.size());
       ++ranks)
    table.rows.push_back({fmt::format("{}", ranks),
                          fmt::format("{:.3f}", step_factor(before, ranks)),
                          fmt::format("{:.3f}", step_factor(after, ranks))});
  if (showing.format == Format::csv) return render_csv(table);
  if (showing.format == Format::md) return render_markdown(table);
  return fmt::format("{} from {} runs, four of five within {}\n{}", path,
                     after.runs, percent(after.run_spread), render_text(table));
}

std::string render_drift(const DriftAnswer& answer, const Showing& showing) {
  if (showing.format == Format::json) return drift_json(answer);
  Table table{{{"moved"},
               {"before", Align::right},
               {"now", Align::right},
               {"ratio", Align::right}},
              {}};
  for (const MovedProbe& moved : answer.moved)
    table.rows.push_back({moved.probe, text(moved.before), text(moved.now),
                          fmt::format("{:.2f}", moved.now / moved.before)});
  if (showing.format == Format::csv) return render_csv(table);
  if (showing.format == Format::md) return render_markdown(table);
  return fmt::format("{}: {} of {} probes came out as before\n{}", answer.path,
                     answer.probes - static_cast<int>(answer.moved.size()),
                     answer.probes,
                     answer.moved.empty() ? "" : render_text(table));
}

}  // namespace ztplan
