#include "report/trace.h"

#include <fmt/format.h>

#include <ostream>
#include <set>
#include <string>

#include "base/error.h"
#include "base/json_writer.h"

namespace ztplan {
namespace {

constexpr double kMicro = 1e6;

using Track = std::pair<int, Lane>;  // stage, lane

std::set<Track> tracks_of(const StepGraph& graph) {
  std::set<Track> tracks;
  for (const Task& task : graph.tasks()) tracks.insert({task.stage, task.lane});
  return tracks;
}

std::string name_event(const char* what, int stage, int lane,
                       const std::string& name) {
  JsonWriter json(JsonWriter::Layout::one_line);
  json.begin_object().field("ph", "M").field("name", what);
  json.field("pid", stage).field("tid", lane).key("args");
  json.begin_object().field("name", name).end_object().end_object();
  return json.take();
}

std::string slice_name(const Task& task) {
  const std::string_view kind = to_text(task.kind);
  if (task.micro_batch < 0) return std::string(kind);
  return fmt::format("{} {}", kind, task.micro_batch);
}

std::string slice(const StepGraph& graph, const Task& task, const Span& span) {
  const Recipe& recipe = graph.recipes()[static_cast<std::size_t>(task.recipe)];
  JsonWriter json(JsonWriter::Layout::one_line);
  json.begin_object().field("ph", "X").field("name", slice_name(task));
  json.field("cat", to_text(task.kind)).field("pid", task.stage);
  json.field("tid", static_cast<int>(task.lane));
  json.field("ts", span.start.value * kMicro);
  json.field("dur", (span.end - span.start).value * kMicro);
  json.key("args").begin_object().field("recipe", recipe.name);
  if (task.micro_batch >= 0) json.field("micro_batch", task.micro_batch);
  if (task.chunk >= 0) json.field("chunk", task.chunk);
  json.end_object().end_object();
  return json.take();
}

}  // namespace

void write_trace(const StepGraph& graph, const Timeline& timeline,
                 std::ostream& out) {
  require(timeline.spans.size() == graph.tasks().size(),
          "a timeline has a span for every task");
  out << R"({"displayTimeUnit":"ms","traceEvents":[)";
  const char* separator = "\n";
  const auto write = [&](const std::string& event) {
    out << separator << event;
    separator = ",\n";
  };
  for (const auto& [stage, lane] : tracks_of(graph)) {
    const int thread = static_cast<int>(lane);
    write(name_event("process_name", stage, thread,
                     fmt::format("stage {}", stage)));
    write(name_event("thread_name", stage, thread, std::string(to_text(lane))));
  }
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    write(slice(graph, graph.tasks()[i], timeline.spans[i]));
  }
  out << "\n]}\n";
}

}  // namespace ztplan
