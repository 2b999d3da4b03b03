// Models in one line of text, and the usual shape of a size.
#include "spec/model_text.h"

#include <doctest/doctest.h>

#include <string>

#include "base/error.h"

using namespace ztplan;

namespace {

std::string complaint(const std::string& text) {
  try {
    parse_model_text(text);
  } catch (const Error& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "";
}

void says(const std::string& text, const std::string& part) {
  const std::string said = complaint(text);
  INFO(text, " said: ", said);
  CHECK(said.find(part) != std::string::npos);
}

std::int64_t count(const std::string& text) {
  return parameters(parse_model_text(text));
}

}  // namespace

TEST_CASE("a GPT: 12 L h^2 + 13 L h, embedding, positions, final norm") {
  const std::int64_t h = 1024, layers = 24;
  CHECK(count("gpt:layers=24,hidden=1024,heads=16,vocab=50304,seq=512") ==
        12 * layers * h * h + 13 * layers * h + (50304 + 512) * h + 2 * h);
}

TEST_CASE("published models in a line of text") {
  CHECK(count("gpt:layers=48,hidden=1600,heads=25,seq=1024") == 1'557'611'200);
  CHECK(count("gpt:layers=96,hidden=12288,heads=96") == 174'604'259'328);
  CHECK(count("llama:layers=32,hidden=4096,heads=32") == 6'738'415'616);
  CHECK(count("llama:layers=40,hidden=5120,heads=40") == 13'015'864'320);
  CHECK(count("llama:layers=80,hidden=8192,heads=64,kv_heads=8,ffn=28672") ==
        68'976'648'192);
  CHECK(count("llama:layers=40,hidden=5120,heads=32,kv_heads=8,head_size=128,"
              "ffn=14336,vocab=131072") == 12'247'782'400);  // Mistral-Nemo
  CHECK(count("llama:layers=32,hidden=4096,heads=32,kv_heads=8,ffn=14336,"
              "experts=8,top_k=2") == 46'702'792'704);  // Mixtral-8x7B
}

TEST_CASE("short keys are the long ones") {
  CHECK(parse_model_text("llama:l=4,h=512,a=8,g=2,d=32,f=999,v=77,s=88,e=4,k=2")
            .name ==
        parse_model_text("llama:layers=4,hidden=512,heads=8,kv_heads=2,"
                         "head_size=32,ffn=999,vocab=77,seq=88,experts=4,"
                         "top_k=2")
            .name);
}

TEST_CASE("what is left out is as usual, and said") {
  const ModelSpec m = parse_model_text("gpt:h=4096,l=24");
  CHECK(m.name == "gpt:layers=24,hidden=4096,heads=32,vocab=50257,seq=2048");
  CHECK(m.positions == Positions::learned);
  CHECK(m.tied);
  CHECK(m.layers[0].layer.ffn.bias);
  const ModelSpec l = parse_model_text("llama:h=320,l=2");
  CHECK(l.name == "llama:layers=2,hidden=320,heads=5,vocab=32000,seq=4096");
  CHECK(l.layers[0].layer.ffn.width == 1024);  // 853.3 up to 256s
  CHECK(l.norm == Norm::rms);
  CHECK_FALSE(l.tied);
}

TEST_CASE("a model's name reads back as the model") {
  for (const char* text :
       {"gpt:layers=2,hidden=128,heads=2,vocab=10,seq=8", "gpt:l=3,h=192,f=5",
        "llama:l=4,h=512,a=8,g=2,d=32,f=999,v=77,s=88,e=4,k=2",
        "gpt:params=50.4B", "llama:params=7B,vocab=128256"}) {
    const ModelSpec m = parse_model_text(text);
    const ModelSpec again = parse_model_text(m.name);
    INFO(text, ": ", m.name);
    CHECK(again.name == m.name);
    CHECK(again.layers == m.layers);
    CHECK(parameters(again) == parameters(m));
  }
}

TEST_CASE("a published shape is taken for its size") {
  const auto name = [](const char* text) {
    return parse_model_text(text).name.substr(0, 40);
  };
  CHECK(name("gpt:params=125M") == "gpt:layers=12,hidden=768,heads=12,vocab=");
  CHECK(name("gpt:params=1.3B") == "gpt:layers=24,hidden=2048,heads=16,vocab");
  CHECK(name("gpt:params=7B") == "gpt:layers=32,hidden=4096,heads=32,vocab");
  CHECK(name("gpt:params=175B") == "gpt:layers=96,hidden=12288,heads=96,voca");
  CHECK(name("gpt:params=1T") == "gpt:layers=128,hidden=25600,heads=160,vo");
  CHECK(name("llama:params=7B") == "llama:layers=32,hidden=4096,heads=32,voc");
  CHECK(name("llama:params=65B") == "llama:layers=80,hidden=8192,heads=64,voc");
}

TEST_CASE("between published sizes the shape has their proportions") {
  for (const char* family : {"gpt", "llama"})
    for (const double billions : {0.05, 0.2, 0.5, 1.0, 2.0, 4.0, 10.0, 20.0,
                                  30.0, 50.4, 100.0, 250.0, 400.0, 2000.0}) {
      const std::string text =
          std::string(family) + ":params=" + std::to_string(billions) + "B";
      const ModelSpec m = parse_model_text(text);
      INFO(text, ": ", m.name);
      CHECK(static_cast<double>(parameters(m)) / 1e9 ==
            doctest::Approx(billions).epsilon(0.06));
      const double aspect = 1.0 * m.hidden / layer_count(m);
      CHECK(aspect > 25);
      CHECK(aspect < 260);
      CHECK(m.hidden % m.layers[0].layer.attention.heads == 0);
    }
}

TEST_CASE("a size is told with what was chosen for it") {
  const ModelSpec m = parse_model_text("gpt:params=50.4B");
  CHECK(m.name == "gpt:layers=48,hidden=9216,heads=72,vocab=50257,seq=2048");
  CHECK(m.source.find("usual shape for 50.4B parameters, 49410173952 in all") ==
        0);
}

TEST_CASE("what is model text and what is not") {
  CHECK(is_model_text("gpt:layers=3"));
  CHECK(is_model_text("bert:layers=3"));
  CHECK_FALSE(is_model_text("gpt2"));
  CHECK_FALSE(is_model_text("./gpt:x"));
  CHECK_FALSE(is_model_text("C:/models/x.json"));
  CHECK_FALSE(is_model_text(":layers=3"));
  CHECK_FALSE(is_model_text(""));
}

TEST_CASE("a line that is no model says why") {
  says("bert:layers=3", "unknown family \"bert\" | gpt or llama");
  says("gpt:", "layers is missing");
  says("gpt:layers=3", "hidden is missing");
  says("gpt:layers", "expected key=value, found \"layers\"");
  says("gpt:layers=3,", "hidden is missing");
  says("gpt:,", "expected key=value, found \"\"");
  says("gpt:layrs=3", "unknown key \"layrs\" | did you mean layers?");
  says("gpt:zzzz=3", "known keys: params, layers");
  says("gpt:l=3,layers=4", "layers is given twice");
  says("gpt:layers=x", "layers must be a whole number from 1 to 100000000");
  says("gpt:layers=", "layers must be a whole number");
  says("gpt:layers=0,h=64", "layers must be a whole number");
  says("gpt:layers=-1,h=64", "layers must be a whole number");
  says("gpt:layers=1.5,h=64", "layers must be a whole number");
  says("gpt:layers=99999999999999999999,h=64", "layers must be a whole number");
  says("gpt:layers=3,hidden=100", "heads must be given");
  says("gpt:l=3,h=100000000,a=1", "hidden must be 1 to 1000000");
  says("gpt:l=3,h=128,a=256", "hidden 128 is not a multiple of heads 256");
  says("gpt:l=3,h=128,k=2", "top_k needs experts");
  says("gpt:l=3,h=128,e=4", "top_k must be 1 to 4, not 0");
  says("gpt:l=20000,h=128", "layers[0].count must be 1 to 10000");
  says("gpt:params=7B,layers=3", "params chooses layers already");
  says("gpt:params=0", "params must be at least 1");
  says("gpt:params=nan", "count");
  says("gpt:params=-3", "count");
  says("gpt:params=1M", "no usual shape has 1e+06 parameters");
  says("gpt:params=900000T", "no usual shape");
}
