#include "report/model_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "base/json_writer.h"
#include "base/table.h"
#include "report/number_text.h"
#include "report/render.h"

namespace ztplan {
namespace {

const char* name_of(Positions positions) {
  switch (positions) {
    case Positions::none:
      return "none";
    case Positions::learned:
      return "learned";
    case Positions::rotary:
      return "rotary";
    case Positions::alibi:
      return "alibi";
    case Positions::relative:
      return "relative";
  }
  return "?";
}

const char* name_of(Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return "gelu";
    case Activation::relu:
      return "relu";
    case Activation::silu:
      return "silu";
  }
  return "?";
}

// "64 heads of 128, 8 for keys and values".
std::string describe(const Attention& a) {
  if (a.is_latent()) {
    return fmt::format("latent attention, {} heads, ranks {} and {}", a.heads,
                       a.latent.q_rank, a.latent.kv_rank);
  }
  std::string text = fmt::format("{} heads of {}", a.heads, a.head_size);
  if (a.kv_heads != a.heads) {
    text += fmt::format(", {} for keys and values", a.kv_heads);
  }
  if (a.window > 0) text += fmt::format(", window {}", a.window);
  return text;
}

std::string describe(const FeedForward& f) {
  const std::string kind =
      fmt::format("{}{}", f.gated ? "gated " : "", name_of(f.activation));
  if (!f.is_moe()) return fmt::format("{} MLP of {}", kind, f.width);
  std::string text = fmt::format("{} experts of {} ({}), {} a token", f.experts,
                                 f.expert_width, kind, f.top_k);
  if (f.shared_width > 0) {
    text += fmt::format(", shared width {}", f.shared_width);
  }
  return text;
}

std::string describe(const LayerGroup& group) {
  return fmt::format("{} layers: {}; {}", group.count,
                     describe(group.layer.attention),
                     describe(group.layer.ffn));
}

struct Parts {
  std::int64_t attention = 0, mlp = 0, experts = 0, replicated = 0, ends = 0;
};

Parts parts_of(const ModelSpec& model) {
  Parts parts;
  for (const LayerGroup& group : model.layers) {
    const LayerParameters one = layer_parameters(model, group.layer);
    parts.attention += group.count * (one.attention + one.key_value);
    parts.mlp += group.count * one.mlp;
    parts.experts += group.count * one.experts;
    parts.replicated += group.count * one.replicated;
  }
  parts.ends = parameters(model) - parts.attention - parts.mlp - parts.experts -
               parts.replicated;
  return parts;
}

std::vector<std::pair<const char*, std::int64_t>> named(const Parts& parts) {
  return {{"attention", parts.attention},
          {"mlp", parts.mlp},
          {"experts", parts.experts},
          {"norms_and_biases", parts.replicated},
          {"embeddings_and_head", parts.ends}};
}

void write_summary(JsonWriter& json, const ModelSpec& model) {
  json.field("name", model.name).key("aliases").begin_array();
  for (const std::string& alias : model.aliases) json.value(alias);
  json.end_array().field("hub_id", model.hub_id);
  json.field("parameters", parameters(model));
  json.field("active_parameters", active_parameters(model));
  json.field("layers", layer_count(model)).field("hidden", model.hidden);
  json.field("vocab", model.vocab).field("sequence", model.sequence);
  json.field("source", model.source);
}

void write_parts(JsonWriter& json, const ModelSpec& model) {
  json.key("parameters_by_part").begin_object();
  for (const auto& [name, count] : named(parts_of(model))) {
    json.field(name, count);
  }
  json.end_object();
  json.field("positions", name_of(model.positions));
  json.field("tied", model.tied).field("global_batch", model.global_batch);
  json.key("layer_groups").begin_array();
  for (const LayerGroup& group : model.layers) json.value(describe(group));
  json.end_array();
}

std::string models_json(std::span<const ModelSpec> models) {
  JsonWriter json(JsonWriter::Layout::indented);
  json.begin_object().field("schema", "ztplan.models/1");
  json.key("models").begin_array();
  for (const ModelSpec& model : models) {
    json.begin_object();
    write_summary(json, model);
    json.end_object();
  }
  json.end_array().end_object();
  return json.take();
}

std::string model_json(const ModelSpec& model) {
  JsonWriter json(JsonWriter::Layout::indented);
  json.begin_object().field("schema", "ztplan.models/1");
  json.key("models").begin_array().begin_object();
  write_summary(json, model);
  write_parts(json, model);
  json.end_object().end_array().end_object();
  return json.take();
}

Table models_table(std::span<const ModelSpec> models) {
  Table table{{{"name"},
               {"parameters", Align::right},
               {"layers", Align::right},
               {"hidden", Align::right},
               {"seq", Align::right},
               {"aliases"}},
              {}};
  for (const ModelSpec& model : models) {
    table.rows.push_back(
        {model.name, count_text(static_cast<double>(parameters(model))),
         fmt::format("{}", layer_count(model)), fmt::format("{}", model.hidden),
         fmt::format("{}", model.sequence),
         fmt::format("{}", fmt::join(model.aliases, " "))});
  }
  return table;
}

Table models_csv(std::span<const ModelSpec> models) {
  Table table{{{"name"},
               {"aliases"},
               {"hub_id"},
               {"parameters"},
               {"active_parameters"},
               {"layers"},
               {"hidden"},
               {"vocab"},
               {"sequence"},
               {"source"}},
              {}};
  for (const ModelSpec& model : models) {
    table.rows.push_back(
        {model.name, fmt::format("{}", fmt::join(model.aliases, " ")),
         model.hub_id, fmt::format("{}", parameters(model)),
         fmt::format("{}", active_parameters(model)),
         fmt::format("{}", layer_count(model)), fmt::format("{}", model.hidden),
         fmt::format("{}", model.vocab), fmt::format("{}", model.sequence),
         model.source});
  }
  return table;
}

Table model_facts(const ModelSpec& model) {
  Table table{{{"model", Align::left}, {model.name, Align::left}}, {}};
  const auto add = [&table](std::string name, std::string value) {
    table.rows.push_back({std::move(name), std::move(value)});
  };
  if (!model.aliases.empty()) {
    add("aliases", fmt::format("{}", fmt::join(model.aliases, ", ")));
  }
  if (!model.hub_id.empty()) add("hub id", model.hub_id);
  add("parameters", grouped(parameters(model)));
  if (active_parameters(model) != parameters(model)) {
    add("active for a token", grouped(active_parameters(model)));
  }
  for (const auto& [name, count] : named(parts_of(model))) {
    if (count > 0) add(fmt::format("  {}", name), grouped(count));
  }
  add("hidden", fmt::format("{}", model.hidden));
  add("vocab", fmt::format("{}{}", model.vocab,
                           model.tied ? ", head tied to the embedding" : ""));
  add("positions", name_of(model.positions));
  add("sequence", fmt::format("{}", model.sequence));
  if (model.global_batch > 0) {
    add("batch", fmt::format("{} sequences", model.global_batch));
  }
  for (const LayerGroup& group : model.layers) add("layers", describe(group));
  add("source", model.source);
  return table;
}

}  // namespace

std::string render_models(std::span<const ModelSpec> models, Format format) {
  if (format == Format::json) return models_json(models);
  if (format == Format::csv) return render_csv(models_csv(models));
  return render(models_table(models), format);
}

std::string render_model(const ModelSpec& model, Format format) {
  if (format == Format::json) return model_json(model);
  if (format == Format::csv) return render_csv(models_csv({&model, 1}));
  return render(model_facts(model), format);
}

}  // namespace ztplan
