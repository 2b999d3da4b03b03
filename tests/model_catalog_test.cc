// models/*.json against the counts their makers published, and finding a model
// by all that people call it.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "spec/catalog.h"

using namespace ztplan;

namespace {

const std::vector<ModelSpec>& catalog() {
  static const std::vector<ModelSpec> models = all_models();
  return models;
}

const ModelSpec& named(const std::string& name) {
  for (const ModelSpec& model : catalog())
    if (model.name == name) return model;
  throw Error("no such model: " + name);
}

std::string lower_case(std::string text) {
  for (char& c : text)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// Message and hint of the error that `name` gives.
std::string complaint(const std::string& name) {
  try {
    load_model(name);
  } catch (const Error& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "";
}

/// What a published embedding count leaves out of ours.
std::int64_t left_out(const ModelSpec& m) {
  if (m.embedding_norm) return std::int64_t{2} * m.hidden;
  const int heads = m.layers.front().layer.attention.heads;
  return std::int64_t{2} * m.relative_buckets * heads;
}

}  // namespace

TEST_CASE("every model counts what its file says was published") {
  CHECK(catalog().size() >= 160);
  int published = 0;
  for (const ModelSpec& m : catalog()) {
    if (!m.published_parameters) continue;
    ++published;
    INFO(m.name);
    CHECK(parameters(m) == *m.published_parameters);
  }
  CHECK(published >= 120);
}

TEST_CASE("counts by part equal the published table") {
  const JsonView table =
      JsonView::load(ZTPLAN_SOURCE_DIR "/tests/published/parameters.json");
  const JsonView rows = table.at("rows");
  REQUIRE(rows.size() == 98);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ModelSpec& m = named(rows[i].at("model").string());
    INFO(m.name);
    CHECK(parameters(m) == rows[i].at("parameters").integer());
    CHECK(active_parameters(m) == rows[i].at("active").integer());
    CHECK(embedding_parameters(m) + embedding_extra_parameters(m) +
              head_parameters(m) - left_out(m) ==
          rows[i].at("embedding").integer());
    // A count somebody else printed is in the model's file too.
    const bool has_witness = rows[i].at("evidence").string() != "computed";
    CHECK(m.published_parameters.has_value() == has_witness);
  }
}

TEST_CASE("papers print sizes in billions") {
  struct Row {
    const char* model;
    double billions, digit;  // as printed, and the last digit's worth
  };
  const Row rows[] = {
      // GPT-3, arXiv 2005.14165, table 2.1 (1.3B and 13B are printed with
      // shapes that do not divide; see their files).
      {"gpt3-125m", 0.125, 0.001},
      {"gpt3-760m", 0.760, 0.001},
      {"gpt3-2.7b", 2.7, 0.1},
      {"gpt3-6.7b", 6.7, 0.1},
      {"gpt3-175b", 174.6, 0.1},  // appendix D, table D.1: 174,600M
      // Megatron-LM, arXiv 2104.04473, table 1.
      {"megatron-1.7b", 1.7, 0.1},
      {"megatron-3.6b", 3.6, 0.1},
      {"megatron-7.5b", 7.5, 0.1},
      {"megatron-18.4b", 18.4, 0.1},
      {"megatron-39.1b", 39.1, 0.1},
      {"megatron-76.1b", 76.1, 0.1},
      {"megatron-145.6b", 145.6, 0.1},
      {"megatron-310.1b", 310.1, 0.1},
      {"megatron-530b", 529.6, 0.1},
      {"megatron-1t", 1008.0, 0.1},
      // Korthikanti et al., arXiv 2205.05198, table 3.
      {"megatron-22b", 22, 1},
      {"megatron-175b", 175, 1},
      // LLaMA, arXiv 2302.13971, table 2.
      {"llama-7b", 6.7, 0.1},
      {"llama-13b", 13.0, 0.1},
      {"llama-30b", 32.5, 0.1},
      {"llama-65b", 65.2, 0.2},
      // Nemotron-4, arXiv 2402.16819, section 2: 3.2B + 12.5B printed.
      {"nemotron-4-15b", 15.6, 0.1},
      {"nemotron-4-340b", 341, 1},
      {"kimi-k2", 1026, 1},
  };
  for (const Row& row : rows) {
    const double count =
        static_cast<double>(parameters(named(row.model))) / 1e9;
    INFO(row.model, ": ", count);
    CHECK(std::abs(count - row.billions) <= 0.51 * row.digit);
  }
}

TEST_CASE("active counts agree with model cards to the printed digit") {
  // gpt-oss, arXiv 2508.10925, table 1, without the input embedding; the
  // others with it.
  const auto active = [](const char* name) {
    return static_cast<double>(active_parameters(named(name))) / 1e9;
  };
  CHECK(active("gpt-oss-20b") - 201088 * 2880 / 1e9 ==
        doctest::Approx(3.61).epsilon(0.002));
  CHECK(active("gpt-oss-120b") - 201088 * 2880 / 1e9 ==
        doctest::Approx(5.13).epsilon(0.002));
  CHECK(active("mixtral-8x7b") == doctest::Approx(12.9).epsilon(0.005));
  CHECK(active("qwen3-235b-a22b") == doctest::Approx(22).epsilon(0.02));
  CHECK(active("kimi-k2") == doctest::Approx(32).epsilon(0.03));
  CHECK(active("llama4-scout") == doctest::Approx(17).epsilon(0.02));
  CHECK(active("phi3.5-moe") == doctest::Approx(6.6).epsilon(0.01));
}

TEST_CASE("no two models answer to one name") {
  std::map<std::string, std::string> owner;
  for (const ModelSpec& m : catalog()) {
    std::vector<std::string> names = m.aliases;
    names.push_back(m.name);
    if (!m.hub_id.empty()) names.push_back(m.hub_id);
    for (const std::string& name : names) {
      INFO(name, ": ", m.name, " and ", owner[lower_case(name)]);
      CHECK(owner[lower_case(name)].empty());
      owner[lower_case(name)] = m.name;
    }
  }
}

TEST_CASE("a model's name is its file's, in lower case, with a source") {
  for (const ModelSpec& m : catalog()) {
    INFO(m.name);
    CHECK(std::filesystem::exists(data_directory() + "/models/" + m.name +
                                  ".json"));
    CHECK(m.name == lower_case(m.name));
    CHECK(m.source.size() > 20);
  }
}

TEST_CASE("what people type finds the model they mean") {
  const std::pair<const char*, const char*> rows[] = {
      {"175b", "gpt3-175b"},
      {"22b", "megatron-22b"},
      {"530b", "megatron-530b"},
      {"1t", "megatron-1t"},
      {"gpt2", "gpt2"},
      {"gpt2-345m", "gpt2-medium"},
      {"gpt2-xl", "gpt2-xl"},
      {"llama-7b", "llama-7b"},
      {"llama2-7b", "llama2-7b"},
      {"llama3-8b", "llama3-8b"},
      {"llama3-70b", "llama3-70b"},
      {"llama3.1-405b", "llama3.1-405b"},
      {"mixtral-8x7b", "mixtral-8x7b"},
      {"qwen2.5-14b", "qwen2.5-14b"},
      {"qwen3-235b-a22b", "qwen3-235b-a22b"},
      {"deepseek-v3", "deepseek-v3"},
      {"deepseek-r1", "deepseek-v3"},
      {"gpt-oss-120b", "gpt-oss-120b"},
      {"pythia-2.8b", "pythia-2.8b"},
      {"mpt-30b", "mpt-30b"},
      {"bloom", "bloom-176b"},
      {"internlm-7b", "internlm-7b"},
      {"bert-large", "bert-large"},
      {"Llama3-70B", "llama3-70b"},
      {"META-LLAMA/llama-3.1-8b", "llama3.1-8b"},
      {"openai-community/gpt2", "gpt2"},
      {"gpt:layers=2,hidden=128",
       "gpt:layers=2,hidden=128,heads=1,"
       "vocab=50257,seq=2048"},
  };
  for (const auto& row : rows) {
    INFO(row.first);
    CHECK(load_model(row.first).name == row.second);
  }
}

TEST_CASE("the model of the front page") {
  const ModelSpec m = load_model("175b");
  CHECK(parameters(m) == 174'604'259'328);
  CHECK(m.global_batch == 1536);
  CHECK(m.sequence == 2048);
  CHECK(layer_count(m) == 96);
}

TEST_CASE("an unknown name is told the nearest, and what else there is") {
  const std::string said = complaint("lama3-70b");
  CHECK(said.find("no model or file is called \"lama3-70b\"") == 0);
  CHECK(said.find("did you mean llama3-70b?") != std::string::npos);
  CHECK(said.find("config.json") != std::string::npos);
  CHECK(said.find("gpt:layers=") != std::string::npos);
  CHECK(complaint("").find("no model or file is called \"\"") == 0);
  CHECK(complaint("nowhere/at/all.json").find("no model or file") == 0);
}

namespace {

/// A folder of its own, gone at the end.
struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / "ztplan_model_catalog_test";
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name) << text;
    return (path / name).string();
  }
};

}  // namespace

TEST_CASE("a path may be a model file, a config.json or a checkpoint") {
  const Folder folder;
  const std::string config = folder.write(
      "config.json", R"({"model_type": "gpt2", "n_layer": 24, "n_embd": 1024,
                         "n_head": 16})");
  CHECK(parameters(load_model(config)) == 354'823'168);
  CHECK(load_model(config).name == config);
  CHECK(parameters(load_model(folder.path.string())) == 354'823'168);
  const std::string copy = folder.write(
      "mine.json",
      read_file(data_directory() + "/models/gpt2.json", Bytes{kMiB}));
  CHECK(parameters(load_model(copy)) == 124'439'808);
}

TEST_CASE("a path that is neither says so") {
  const Folder folder;
  CHECK(complaint(folder.write("x.json", "{}"))
            .find("neither a model file (no \"layers\") nor a Hugging Face "
                  "config.json") != std::string::npos);
  CHECK(complaint(folder.write("y.json", "hello")).find("not JSON") !=
        std::string::npos);
  CHECK(complaint(folder.path.string()).find("directory") != std::string::npos);
}
