// Models by name: models/*.json, or whatever file or text the user gives.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "base/nearest.h"
#include "base/quote.h"
#include "spec/catalog.h"
#include "spec/hf_config.h"
#include "spec/model_file.h"
#include "spec/model_text.h"

namespace ztplan {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kLargestModelFile{kMiB};  // ours hold a kilobyte

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if ('A' <= c && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// Of models/, by name.
std::vector<fs::path> model_files() {
  const fs::path directory = fs::path(data_directory()) / "models";
  std::vector<fs::path> files;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(directory, failed))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  if (failed)
    throw Error(fmt::format("cannot read {}: {}", quote(directory.string()),
                            failed.message()),
                "set ZTPLAN_DATA to the folder that holds models/");
  std::ranges::sort(files);
  return files;
}

std::vector<std::string> names_of(const ModelSpec& model) {
  std::vector<std::string> names = {model.name};
  names.insert(names.end(), model.aliases.begin(), model.aliases.end());
  if (!model.hub_id.empty()) names.push_back(model.hub_id);
  return names;
}

bool answers_to(const ModelSpec& model, const std::string& name) {
  const std::vector<std::string> names = names_of(model);
  return std::ranges::any_of(
      names, [&](const std::string& own) { return lower_case(own) == name; });
}

/// Parses only the files that hold `name` as a word of their own: most of
/// them need not be.
std::optional<ModelSpec> find_alias(const std::string& name) {
  const std::string word = '"' + name + '"';
  for (const fs::path& path : model_files()) {
    const std::string text = read_file(path.string(), kLargestModelFile);
    if (lower_case(text).find(word) == std::string::npos) continue;
    ModelSpec model = parse_model_file(text, path.string());
    if (answers_to(model, name)) return model;
  }
  return std::nullopt;
}

bool is_file_name(std::string_view name) {
  return !name.empty() &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.-_") ==
             std::string_view::npos;
}

std::optional<ModelSpec> find_name(std::string_view name) {
  const std::string wanted = lower_case(name);
  if (is_file_name(wanted)) {
    const fs::path path =
        fs::path(data_directory()) / "models" / (wanted + ".json");
    if (is_there(path)) return read_model_file(JsonView::load(path.string()));
  }
  return find_alias(wanted);
}

ModelSpec load_path(const fs::path& path) {
  const fs::path inside = path / "config.json";  // a checkpoint's folder
  const JsonView file =
      JsonView::load(is_there(inside) ? inside.string() : path.string());
  if (is_hf_config(file)) return read_hf_config(file, path.string());
  if (file.has("layers")) return read_model_file(file);
  file.fail(
      "neither a model file (no \"layers\") nor a Hugging Face "
      "config.json (no \"model_type\")",
      "models/ holds examples of the first");
}

/// A path with its looks: a name of the Hub has a slash too, so it must exist.
bool looks_like_path(std::string_view text) {
  return text.find('/') != std::string_view::npos || text.ends_with(".json");
}

[[noreturn]] void refuse_name(std::string_view name) {
  std::vector<std::string> known;
  for (const ModelSpec& model : all_models())
    for (const std::string& own : names_of(model)) known.push_back(own);
  const std::string near = nearest_name(name, known);
  const std::string meant =
      near.empty() ? "" : fmt::format("did you mean {}? ", near);
  throw Error("no model or file is called " + quote(name),
              meant +
                  "`ztplan models` lists them; or give a path to a model "
                  "file, a config.json, or gpt:layers=24,hidden=1024,"
                  "heads=16,vocab=50304");
}

}  // namespace

ModelSpec load_model(std::string_view name_or_path) {
  if (is_model_text(name_or_path)) return parse_model_text(name_or_path);
  if (name_or_path.empty()) refuse_name(name_or_path);
  const fs::path path(name_or_path);
  if (looks_like_path(name_or_path) && is_there(path)) return load_path(path);
  if (auto model = find_name(name_or_path)) return *std::move(model);
  if (is_there(path)) return load_path(path);
  refuse_name(name_or_path);
}

std::vector<ModelSpec> all_models() {
  std::vector<ModelSpec> models;
  for (const fs::path& path : model_files())
    models.push_back(read_model_file(JsonView::load(path.string())));
  std::ranges::sort(models, {}, &ModelSpec::name);
  return models;
}

}  // namespace ztplan
