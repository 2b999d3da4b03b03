#include "report/failure.h"

#include <fmt/format.h>

#include "base/json_writer.h"

namespace ztplan {

std::string to_text(const Failure& failure) {
  std::string text = fmt::format("error: {}\n", failure.message);
  if (!failure.hint.empty()) text += fmt::format("hint: {}\n", failure.hint);
  return text;
}

std::string to_json(const Failure& failure) {
  JsonWriter json(JsonWriter::Layout::indented);
  json.begin_object().key("error").begin_object();
  json.field("code", failure.code).field("message", failure.message);
  json.field("hint", failure.hint).end_object().end_object();
  return json.take();
}

}  // namespace ztplan
