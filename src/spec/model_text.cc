#include "spec/model_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"
#include "base/quantity_text.h"
#include "base/quote.h"
#include "spec/usual_shape.h"

namespace ztplan {
namespace {

constexpr std::string_view kExample =
    "e.g. gpt:layers=24,hidden=1024,heads=16,vocab=50304";

struct Key {
  std::string_view name, brief;
  int Shape::*field;
};

constexpr Key kKeys[] = {
    {"layers", "l", &Shape::layers},       {"hidden", "h", &Shape::hidden},
    {"heads", "a", &Shape::heads},         {"vocab", "v", &Shape::vocab},
    {"seq", "s", &Shape::sequence},        {"kv_heads", "g", &Shape::kv_heads},
    {"head_size", "d", &Shape::head_size}, {"ffn", "f", &Shape::ffn},
    {"experts", "e", &Shape::experts},     {"top_k", "k", &Shape::top_k},
};
constexpr std::string_view kParams = "params";
constexpr int kMostSize = 100'000'000;  // validate has a bound for each

// What may stand beside params: the rest of the shape follows from it.
constexpr std::string_view kBesideParams[] = {"vocab", "seq"};

[[noreturn]] void refuse(std::string_view text, const std::string& complaint,
                         const std::string& hint) {
  throw Error(fmt::format("model {}: {}", quote(text), complaint), hint);
}

struct Given {
  Shape shape;
  std::vector<std::string_view> keys;  // long names, as written
  std::optional<double> params;
  std::string_view params_text;
};

const Key* find_key(std::string_view name) {
  for (const Key& key : kKeys)
    if (name == key.name || name == key.brief) return &key;
  return nullptr;
}

std::string key_names() {
  std::string names(kParams);
  for (const Key& key : kKeys) names += fmt::format(", {}", key.name);
  return names;
}

[[noreturn]] void refuse_key(std::string_view text, std::string_view name) {
  std::vector<std::string> known = {std::string(kParams)};
  for (const Key& key : kKeys) known.emplace_back(key.name);
  const std::string near = nearest_name(name, known);
  refuse(text, fmt::format("unknown key {}", quote(name)),
         near.empty() ? "known keys: " + key_names()
                      : fmt::format("did you mean {}?", near));
}

int parse_size(std::string_view text, std::string_view key,
               std::string_view value) {
  int size = 0;
  const auto [end, error] =
      std::from_chars(value.data(), value.data() + value.size(), size);
  const bool is_whole =
      error == std::errc{} && end == value.data() + value.size();
  if (!is_whole || size < 1 || size > kMostSize)
    refuse(text,
           fmt::format("{} must be a whole number from 1 to {}, not {}", key,
                       kMostSize, quote(value)),
           std::string(kExample));
  return size;
}

double parse_params(std::string_view text, std::string_view value) {
  const double count = parse_count(value);
  if (count < 1) refuse(text, "params must be at least 1", "e.g. params=50.4B");
  return count;
}

void set(Given& given, std::string_view text, std::string_view name,
         std::string_view value) {
  const Key* key = find_key(name);
  if (key == nullptr && name != kParams) refuse_key(text, name);
  const std::string_view full = key == nullptr ? kParams : key->name;
  if (std::ranges::find(given.keys, full) != given.keys.end())
    refuse(text, fmt::format("{} is given twice", full), "keep one of them");
  given.keys.push_back(full);
  if (key == nullptr) {
    given.params = parse_params(text, value);
    given.params_text = value;
  } else {
    given.shape.*key->field = parse_size(text, full, value);
  }
}

Given read_keys(std::string_view text, std::string_view list) {
  Given given;
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    const std::string_view item = list.substr(0, comma);
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos)
      refuse(text, fmt::format("expected key=value, found {}", quote(item)),
             std::string(kExample));
    set(given, text, item.substr(0, equals), item.substr(equals + 1));
    list = comma == std::string_view::npos ? "" : list.substr(comma + 1);
  }
  return given;
}

TextFamily read_family(std::string_view text, std::string_view word) {
  if (word == "gpt") return TextFamily::gpt;
  if (word == "llama") return TextFamily::llama;
  refuse(text, fmt::format("unknown family {}", quote(word)),
         fmt::format("gpt or llama, {}", kExample));
}

/// The shortest text that reads back as the same model.
std::string name_of(std::string_view family, const Shape& s) {
  std::string name =
      fmt::format("{}:layers={},hidden={},heads={},vocab={},seq={}", family,
                  s.layers, s.hidden, s.heads, s.vocab, s.sequence);
  if (s.kv_heads != s.heads) name += fmt::format(",kv_heads={}", s.kv_heads);
  if (s.head_size != s.hidden / s.heads)
    name += fmt::format(",head_size={}", s.head_size);
  const Shape usual = {
      .layers = s.layers, .hidden = s.hidden, .heads = s.heads};
  const bool is_gpt = family == "gpt";
  const TextFamily kind = is_gpt ? TextFamily::gpt : TextFamily::llama;
  if (s.ffn != complete(kind, usual).ffn) name += fmt::format(",ffn={}", s.ffn);
  if (s.experts > 0)
    name += fmt::format(",experts={},top_k={}", s.experts, s.top_k);
  return name;
}

Shape shape_of_size(std::string_view text, TextFamily family,
                    const Given& given) {
  for (const std::string_view key : given.keys) {
    const bool fits = key == kParams || std::ranges::find(kBesideParams, key) !=
                                            std::end(kBesideParams);
    if (!fits)
      refuse(text, fmt::format("params chooses {} already", key),
             "give params with vocab and seq alone, or the shape without it");
  }
  return usual_shape(family, *given.params, given.shape);
}

Shape given_shape(std::string_view text, TextFamily family,
                  const Given& given) {
  const Shape& shape = given.shape;
  if (shape.layers == 0 || shape.hidden == 0)
    refuse(
        text,
        fmt::format("{} is missing", shape.layers == 0 ? "layers" : "hidden"),
        fmt::format("{}, or gpt:params=50.4B", kExample));
  if (shape.top_k > 0 && shape.experts == 0)
    refuse(text, "top_k needs experts", std::string(kExample));
  return complete(family, shape);
}

std::string tell_size(TextFamily family, std::string_view wanted,
                      std::int64_t count) {
  return fmt::format(
      "usual shape for {} parameters, {} in all: proportions of {}", wanted,
      count,
      family == TextFamily::gpt
          ? "GPT-3 (arXiv 2005.14165) and Megatron-LM (arXiv 2104.04473)"
          : "LLaMA (arXiv 2302.13971)");
}

}  // namespace

bool is_model_text(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == 0 || colon == std::string_view::npos) return false;
  const std::string_view word = text.substr(0, colon);
  return word.find_first_not_of("abcdefghijklmnopqrstuvwxyz") ==
         std::string_view::npos;
}

ModelSpec parse_model_text(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view word = text.substr(0, colon);
  const TextFamily family = read_family(text, word);
  const Given given = read_keys(
      text, colon == std::string_view::npos ? "" : text.substr(colon + 1));
  const Shape shape = given.params ? shape_of_size(text, family, given)
                                   : given_shape(text, family, given);
  ModelSpec model = make_model(family, shape);
  model.name = name_of(word, shape);
  validate(model);
  model.source =
      given.params
          ? tell_size(family, given.params_text, parameters(model))
          : "the shape given, the rest as usual for " + std::string(word);
  return model;
}

}  // namespace ztplan
