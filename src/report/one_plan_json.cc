#include "report/one_plan_json.h"

#include "report/plan_json.h"
#include "report/question_json.h"
#include "report/summary.h"

namespace ztplan {

std::string one_plan_json(const char* schema, const Asked& asked,
                          const Plan& plan, const Showing& showing,
                          const std::function<void(JsonWriter&)>& more) {
  JsonWriter json(JsonWriter::Layout::indented);
  json.begin_object().field("schema", schema);
  write_question(json, asked);
  json.field("verdict", to_text(fit_of(asked.question, plan)));
  json.key("plans").begin_array();
  write_plan(json, asked.question, plan, 1);
  json.end_array();
  more(json);
  write_timing(json, showing);
  json.end_object();
  return json.take();
}

void write_timing(JsonWriter& json, const Showing& showing) {
  if (!showing.seconds) return;
  json.key("timing").begin_object().field("seconds", *showing.seconds);
  json.end_object();
}

}  // namespace ztplan
