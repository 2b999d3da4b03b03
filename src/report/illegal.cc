#include "report/illegal.h"

#include <fmt/format.h>

#include "base/json_writer.h"

namespace ztplan {
namespace {

std::string hint_of(const Misfit& misfit) {
  return misfit.nearest.empty() ? "" : "nearest: " + misfit.nearest;
}

}  // namespace

std::string to_text(const Illegal& illegal) {
  const Misfit& misfit = illegal.misfit();
  std::string out = fmt::format(
      "illegal: {} (rule {} of {} engine)\n", misfit.detail, misfit.rule,
      misfit.engine == "any" ? "any" : "the " + misfit.engine);
  if (!misfit.nearest.empty())
    out += fmt::format("hint: {}\n", hint_of(misfit));
  return out;
}

std::string to_json(const Illegal& illegal) {
  const Misfit& misfit = illegal.misfit();
  JsonWriter json(JsonWriter::Layout::indented);
  json.begin_object().key("error").begin_object();
  json.field("code", "illegal").field("message", misfit.detail);
  json.field("hint", hint_of(misfit)).field("rule", misfit.rule);
  json.field("engine", misfit.engine).field("source", misfit.source);
  json.end_object().end_object();
  return json.take();
}

}  // namespace ztplan
