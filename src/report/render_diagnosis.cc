#include "report/render_diagnosis.h"

#include <fmt/format.h>

#include "base/quantity_text.h"
#include "report/check_answer.h"
#include "report/labelled.h"
#include "report/one_plan_json.h"
#include "report/plan_json.h"
#include "report/question_json.h"
#include "report/render.h"
#include "report/summary.h"

namespace ztplan {
namespace {

void write_bytes(JsonWriter& json, const char* key,
                 const std::optional<Bytes>& bytes) {
  if (bytes) json.field(key, *bytes);
}

std::string diagnosis_json(const Diagnosis& d, const Asked* asked,
                           const Showing& showing) {
  JsonWriter json(JsonWriter::Layout::indented);
  json.begin_object().field("schema", "ztplan.diagnose/1");
  json.field("kind", d.kind).field("line", d.line);
  json.field("explanation", d.explanation);
  write_bytes(json, "requested_bytes", d.requested);
  write_bytes(json, "allocated_bytes", d.allocated);
  write_bytes(json, "unallocated_bytes", d.unallocated);
  write_bytes(json, "capacity_bytes", d.capacity);
  write_bytes(json, "reported_peak_bytes", d.peak);
  json.key("matches").begin_array();
  for (const Tensor& tensor : d.matches) {
    json.begin_object().field("name", tensor.name);
    json.field("shape", tensor.shape).field("bytes", tensor.bytes);
    json.field("phase", to_text(tensor.phase)).field("exact", true);
    json.end_object();
  }
  json.end_array();
  json.field("phase", d.phase).field("dominant_term", d.dominant_term);
  json.key("advice").begin_array();
  for (const std::string& each : d.advice) json.value(each);
  json.end_array();
  if (asked != nullptr) write_question(json, *asked);
  json.key("plans").begin_array();
  if (d.plan) write_plan(json, asked->question, *d.plan, 1);
  json.end_array();
  write_remedies(json, d.remedies);
  write_timing(json, showing);
  json.end_object();
  return json.take();
}

std::vector<Labelled> lines_of(const Diagnosis& d, const Asked* asked,
                               const Showing& showing) {
  std::vector<Labelled> lines = {
      {paint(showing.style, Paint::bad, d.kind), d.explanation}};
  for (const Tensor& tensor : d.matches)
    lines.push_back({"was", fmt::format("{}: {}, {}", tensor.name, tensor.shape,
                                        text(tensor.bytes))});
  if (!d.phase.empty()) lines.push_back({"phase", d.phase});
  if (d.plan)
    lines.push_back({"predicted", memory_sentence(asked->question, *d.plan)});
  if (!d.dominant_term.empty()) lines.push_back({"largest", d.dominant_term});
  for (const std::string& advice : d.advice)
    lines.push_back({"advice", advice});
  if (!d.line.empty()) lines.push_back({"log", d.line});
  return lines;
}

Table match_table(const Diagnosis& d) {
  Table table{{{"kind"}, {"name"}, {"shape"}, {"bytes", Align::right}}, {}};
  for (const Tensor& tensor : d.matches)
    table.rows.push_back({d.kind, tensor.name, tensor.shape,
                          fmt::format("{}", tensor.bytes.value)});
  if (table.rows.empty()) table.rows.push_back({d.kind, "", "", ""});
  return table;
}

}  // namespace

std::string render_diagnosis(const Diagnosis& d, const Asked* asked,
                             const Showing& showing) {
  if (showing.format == Format::json) return diagnosis_json(d, asked, showing);
  if (showing.format == Format::csv) return render_csv(match_table(d));
  std::string out = render_lines(lines_of(d, asked, showing), showing.format);
  if (!d.remedies.empty())
    out += "\n" + render(remedy_table(d.remedies), showing.format);
  return out;
}

}  // namespace ztplan
