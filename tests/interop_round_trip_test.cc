// What is emitted is read back equal, on what the format can say.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include "base/error.h"
#include "base/json.h"
#include "interop/format.h"
#include "interop/megatron.h"
#include "strategy/stages.h"
#include "support/planning.h"

using namespace ztplan;

namespace {

constexpr std::size_t kSamples = 60;

Question question_for(const char* model, const char* engine,
                      Precision gradient) {
  Question question = asked(model, "dgx-h100", 16, 2048, 64);
  question.engines = {&find_engine(engine)};
  question.workload.engine = engine;
  question.workload.gradient = gradient;
  return question;
}

struct Trip {
  Strategy sent;
  Configuration read;
  std::vector<EmittedFile> files;
  const ModelSpec& model;
};

/// Emits a sample of legal strategies in `name` and reads each back.
template <class Check>
void travel(const char* name, const Question& question, Check check) {
  const FileFormat& format = find_format(name);
  int trips = 0;
  for (const Legal& legal : legal_sample(question, kSamples, 7)) {
    const std::string sent = to_text(legal.strategy);
    CAPTURE(sent);
    const Plan plan = evaluate(question, *legal.engine, legal.strategy);
    Emitted emitted;
    try {
      emitted = format.emit({question, plan, Launcher::torchrun});
    } catch (const Error&) {
      continue;  // a cut that the format has no word for
    }
    const EmittedFile& main = emitted.files.front();
    REQUIRE(format.recognizes(main.name, main.text));
    CHECK(&recognize(main.name, main.text) == &format);
    const Given given{question.cluster.devices, &question.model,
                      legal.strategy.pipeline};
    Configuration read = format.read(main.name, main.text, given);
    for (const Finding& finding : read.findings) {
      CAPTURE(finding.detail);
      CHECK(finding.severity != Severity::refused);
      CHECK(finding.severity != Severity::trap);
    }
    check(Trip{legal.strategy, std::move(read), emitted.files, question.model});
    ++trips;
  }
  CHECK(trips > 10);
}

void check_batch(const Trip& trip) {
  CHECK(trip.read.global_batch == 64);
  CHECK(trip.read.strategy.micro_batch == trip.sent.micro_batch);
}

/// The strategy as a format with fewer words says it.
template <class... Erased>
Strategy without(Strategy s, Erased... erased) {
  (erased(s), ...);
  return s;
}

void no_tuning(Strategy& s) { s.tuning = {}; }
void no_recompute(Strategy& s) { s.recompute = {}; }
void no_micro(Strategy& s) { s.micro_batch = 1; }
/// Sharding among one rank is none.
void lone_shard(Strategy& s) {
  if (s.data * s.context == 1) s.zero = 0;
}
void plain_context(Strategy& s) {
  if (s.context == 1) s.context_kind = ContextKind::ring;
}

}  // namespace

TEST_CASE("DeepSpeed's file says ZeRO, offload and batch") {
  const Question question =
      question_for("llama3-8b", "deepspeed", Precision::bf16);
  travel("deepspeed", question, [](const Trip& trip) {
    Strategy sent = without(trip.sent, no_tuning, no_recompute, plain_context);
    Strategy read = without(trip.read.strategy, no_tuning, plain_context);
    if (sent.pipeline > 1) return;  // PipelineModule's, not the file's
    read.expert = sent.expert;
    CHECK(to_text(read) == to_text(without(sent, [&](Strategy& s) {
            s.data = read.data;  // what is left of the GPUs
          })));
    if (sent.tensor == 1) check_batch(trip);
    CHECK(trip.read.precision == Precision::bf16);
    CHECK(trip.read.gradient == Precision::bf16);
  });
}

// deepspeedai/DeepSpeed#7938, #8060, #8064: AutoEP, at stage 3, with AutoTP.
TEST_CASE("DeepSpeed's file says AutoEP where it runs") {
  struct Row {
    const char* model;
    const char* strategy;
    bool says;
  };
  for (const Row& row :
       {Row{"mixtral-8x7b", "ep=8,zero=3", true},
        Row{"mixtral-8x7b", "ep=4,tp=2,zero=1", true},
        Row{"mixtral-8x7b", "ep=4,tp=2,zero=1,offload=cpu", false},
        Row{"mixtral-8x7b", "ep=8,zero=2,offload=cpu", true},
        Row{"gpt-oss-20b", "ep=8,zero=2", false},  // biased experts
        Row{"mixtral-8x7b", "zero=3", false}}) {
    CAPTURE(std::string(row.strategy));
    const Question question =
        question_for(row.model, "deepspeed", Precision::bf16);
    const Engine& engine = find_engine("deepspeed");
    const Strategy sent = parse_strategy(row.strategy, 16);
    CHECK_FALSE(why_illegal(engine, setting_of(question), sent));
    const Plan plan = evaluate(question, engine, sent);
    const FileFormat& format = find_format("deepspeed");
    const Emitted emitted = format.emit({question, plan, Launcher::torchrun});
    const EmittedFile& file = emitted.files.front();
    CHECK(nlohmann::json::parse(file.text).contains("expert_parallel") ==
          row.says);
    const Configuration read =
        format.read(file.name, file.text, Given{16, &question.model, 1});
    CHECK(read.findings.empty());
    CHECK(read.strategy.expert == (row.says ? sent.expert : 1));
  }
}

TEST_CASE("DeepSpeed's file says how gradients travel") {
  struct Row {
    const char* strategy;
    OptimizerKind optimizer;
    const char* key;
    bool scatters;
  };
  constexpr char kSequence[] = "seq_parallel_communication_data_type";
  constexpr char kData[] = "communication_data_type";
  for (const Row& row :
       {Row{"zero=3,comm=fp32", OptimizerKind::adam, kData, true},
        Row{"zero=3,comm=fp32", OptimizerKind::muon, kData, false},
        Row{"zero=2,comm=fp32", OptimizerKind::muon, kData, true},
        Row{"zero=3,comm=bf16,cp=2,cp_type=ulysses", OptimizerKind::adam,
            kSequence, true}}) {
    CAPTURE(std::string(row.strategy));
    Question question = question_for("llama3-8b", "deepspeed", Precision::bf16);
    question.workload.optimizer = row.optimizer;
    const Strategy sent = parse_strategy(row.strategy, 16);
    const Plan plan = evaluate(question, *question.engines.front(), sent);
    const FileFormat& format = find_format("deepspeed");
    const Emitted emitted = format.emit({question, plan, Launcher::torchrun});
    const EmittedFile& file = emitted.files.front();
    const auto config = nlohmann::json::parse(file.text);
    CHECK(config.contains(row.key));
    CHECK(config["zero_optimization"]["reduce_scatter"] == row.scatters);
    const Configuration read =
        format.read(file.name, file.text, Given{16, &question.model, 1});
    CHECK(read.strategy.tuning.communication == sent.tuning.communication);
  }
}

// deepspeedai/DeepSpeed v0.19.6, every key and rule as a JSON schema.
TEST_CASE("DeepSpeed's file passes the schema of its configuration") {
  const auto document = nlohmann::json::parse(
      read_file(std::string(ZTPLAN_SOURCE_DIR) +
                    "/tests/published/deepspeed_config.schema.json",
                Bytes{4 * kMiB}));
  valijson::Schema schema;
  valijson::SchemaParser().populateSchema(
      valijson::adapters::NlohmannJsonAdapter(document), schema);
  const Question question =
      question_for("llama3-8b", "deepspeed", Precision::bf16);
  travel("deepspeed", question, [&](const Trip& trip) {
    const auto config = nlohmann::json::parse(trip.files.front().text);
    valijson::Validator validator;
    valijson::ValidationResults results;
    const bool valid = validator.validate(
        schema, valijson::adapters::NlohmannJsonAdapter(config), &results);
    std::string problems;
    valijson::ValidationResults::Error error;
    while (results.popError(error)) problems += error.description + "\n";
    CAPTURE(problems);
    CHECK(valid);
  });
  auto wrong = nlohmann::json::parse(R"({"train_batch_size": 8,
      "zero_optimization": {"stage": 4}})");
  valijson::Validator validator;
  CHECK_FALSE(validator.validate(
      schema, valijson::adapters::NlohmannJsonAdapter(wrong), nullptr));
}

TEST_CASE("Megatron-LM's arguments say the model and the plan") {
  for (const char* model : {"gpt3-175b", "llama3-8b", "mixtral-8x7b"}) {
    CAPTURE(model);
    Question question = question_for(model, "megatron", Precision::fp32);
    if (std::string_view(model) == "mixtral-8x7b")
      question.limits.expert_tensor = {1, 2, 4};
    travel("megatron", question, [](const Trip& trip) {
      Strategy read = without(trip.read.strategy, no_tuning, plain_context);
      read.data = trip.sent.data;
      CHECK(to_text(read) ==
            to_text(without(trip.sent, no_tuning, plain_context)));
      REQUIRE(trip.read.model);
      CHECK(parameters(*trip.read.model) == parameters(trip.model));
      CHECK(layer_count(*trip.read.model) == layer_count(trip.model));
      check_batch(trip);
    });
  }
}

TEST_CASE("torchtitan's file says mesh, batch and recomputation") {
  Question question = question_for("llama3-8b", "fsdp", Precision::fp32);
  const auto check = [](const Trip& trip) {
    Strategy sent = without(trip.sent, no_tuning, lone_shard);
    if (sent.recompute.layers > 0) return;               // every layer or none
    if (sent.tensor > 1) sent.sequence_parallel = true;  // always there
    if (!sent.stage_layers.empty()) return;
    Strategy read = without(trip.read.strategy, no_tuning);
    CHECK(to_text(read) == to_text(sent));
    CHECK(trip.read.sequence == 2048);
    CHECK(trip.read.global_batch == 64);
  };
  travel("torchtitan", question, check);
  question.limits.schedule = {Schedule::zb_h1, Schedule::zb_v,
                              Schedule::dualpipe_v};
  travel("torchtitan", question, check);
}

TEST_CASE("accelerate's file says mesh, offload and precision") {
  const Question question = question_for("llama3-8b", "fsdp", Precision::fp32);
  travel("accelerate", question, [](const Trip& trip) {
    Strategy sent = without(trip.sent, no_tuning, no_micro, lone_shard);
    sent.sequence_parallel = false;
    Strategy read = trip.read.strategy;
    if (sent.recompute.mode != Recompute::Mode::full ||
        sent.recompute.layers > 0)
      sent.recompute = read.recompute;  // by the model, not the file
    CHECK(to_text(read) == to_text(sent));
    CHECK(trip.read.precision == Precision::bf16);
  });
}

TEST_CASE("accelerate's mesh needs a dimension that shards") {
  const Question question = question_for("llama3-8b", "fsdp", Precision::fp32);
  const auto emitted = [&](const char* format, const char* strategy) {
    const Plan plan =
        evaluate(question, find_engine("fsdp"), parse_strategy(strategy, 16));
    return find_format(format)
        .emit({question, plan, Launcher::torchrun})
        .files.front()
        .text;
  };
  for (const char* alone : {"tp=2,cp=2,zero=3,shard=2", "cp=2,zero=2,shard=2",
                            "tp=2,zero=3,shard=1"}) {
    CAPTURE(std::string(alone));
    CHECK_THROWS_AS(emitted("accelerate", alone), Error);
    CHECK_NOTHROW(emitted("torchtitan", alone));
  }
  std::string text = emitted("accelerate", "tp=2,cp=2,zero=3,shard=4");
  const auto findings = [&] {
    return find_format("accelerate").read("a.yaml", text, {16}).findings;
  };
  CHECK(findings().empty());
  const std::string from =
      "dp_replicate_size: 2\n  parallelism_config_"
      "dp_shard_size: 2";
  REQUIRE(text.find(from) != std::string::npos);
  text.replace(text.find(from), from.size(),
               "dp_replicate_size: 4\n  parallelism_config_dp_shard_size: 1");
  REQUIRE(findings().size() == 1);
  CHECK(findings().front().rule == std::string("replicas-alone"));
  CHECK(findings().front().severity == Severity::refused);
}

TEST_CASE("fsdp.json says the sharding and the passes") {
  Question question = question_for("llama3-8b", "fsdp", Precision::fp32);
  question.limits.tensor = question.limits.pipeline = {1};
  question.limits.context = {1};
  travel("fsdp", question, [](const Trip& trip) {
    CHECK(to_text(trip.read.strategy) ==
          to_text(without(trip.sent, no_tuning, lone_shard)));
    check_batch(trip);
  });
}

TEST_CASE("Colossal-AI's keywords say the plugin") {
  const Question question =
      question_for("llama3-8b", "colossalai", Precision::bf16);
  travel("colossalai", question, [](const Trip& trip) {
    Strategy sent =
        without(trip.sent, no_tuning, no_recompute, no_micro, plain_context);
    Strategy read =
        without(trip.read.strategy, no_tuning, no_micro, plain_context);
    if (sent.context > 1) sent.sequence_parallel = read.sequence_parallel;
    CHECK(to_text(read) == to_text(sent));
    CHECK(trip.read.precision == Precision::bf16);
  });
}

TEST_CASE("LowLevelZeroPlugin is written for data parallelism alone") {
  struct Row {
    const char* strategy;
    Precision precision;
    const char* plugin;
  };
  constexpr char kLow[] = "LowLevelZeroPlugin";
  for (const Row& row :
       {Row{"zero=1", Precision::bf16, kLow},
        Row{"zero=2,offload=cpu,overlap=0", Precision::bf16, kLow},
        Row{"zero=2,bucket=52428800,comm=fp32", Precision::fp16, kLow},
        Row{"zero=1,shard=8,comm=fp8", Precision::bf16, kLow},
        Row{"zero=2,shard=4,overlap=1", Precision::fp8, kLow},
        Row{"zero=2", Precision::fp8, "HybridParallelPlugin"},
        Row{"zero=0", Precision::bf16, "HybridParallelPlugin"},
        Row{"tp=2,zero=1,comm=bf16", Precision::bf16, "HybridParallelPlugin"},
        Row{"zero=3", Precision::bf16, "GeminiPlugin"}}) {
    CAPTURE(std::string(row.strategy));
    Question question =
        question_for("llama3-8b", "colossalai", Precision::bf16);
    question.workload.precision = row.precision;
    const Strategy sent = parse_strategy(row.strategy, 16);
    const Plan plan = evaluate(question, find_engine("colossalai"), sent);
    const FileFormat& format = find_format("colossalai");
    const Emitted emitted = format.emit({question, plan, Launcher::torchrun});
    const EmittedFile& file = emitted.files.front();
    CHECK(nlohmann::json::parse(file.text)["plugin"] == row.plugin);
    const Configuration read =
        format.read(file.name, file.text, Given{16, &question.model, 1});
    Strategy got = read.strategy;
    if (!sent.tuning.overlap) got.tuning.overlap.reset();
    CHECK(to_text(got) == to_text(sent));
    CHECK(read.precision == row.precision);
    const bool is_trap = row.precision == Precision::fp8 && row.plugin == kLow;
    CHECK(read.findings.size() == (is_trap ? 1 : 0));
  }
}

TEST_CASE("Megatron's NullTokenizer makes the vocabulary of the plan") {
  const Question question =
      question_for("llama3-8b", "megatron", Precision::fp32);
  const Plan plan = evaluate(question, find_engine("megatron"),
                             parse_strategy("tp=2,zero=1", 16));
  const FileFormat& format = find_format("megatron");
  const Emitted emitted = format.emit({question, plan, Launcher::torchrun});
  const EmittedFile& file = emitted.files.front();
  CHECK(file.text.find("--vocab-size 128255\n") != std::string::npos);
  const Configuration read = format.read(file.name, file.text, {16});
  REQUIRE(read.model);
  CHECK(read.model->vocab == question.model.vocab);
  const Configuration named =
      format.read("a.sh",
                  "--num-layers 2 --hidden-size 64 --num-attention-heads 4 "
                  "--seq-length 128 "
                  "--tokenizer-type HuggingFaceTokenizer --vocab-size 128256",
                  {16});
  REQUIRE(named.model);
  CHECK(named.model->vocab == 128256);
}

// NVIDIA/Megatron-LM#1304: thirty layers on four stages became twenty-eight.
TEST_CASE("every layout accounts for every layer") {
  std::mt19937 dice(11);
  for (int i = 0; i < 500; ++i) {
    std::vector<int> chunks(1 + dice() % 24);
    for (int& layers : chunks) layers = static_cast<int>(dice() % 9);
    CHECK(parse_pipeline_layout(pipeline_layout(chunks)) == chunks);
  }
  CHECK(parse_pipeline_layout("Et*3|(tt|)*2,t|L") ==
        std::vector<int>{3, 2, 2, 1, 0});
  CHECK(parse_pipeline_layout("t|t").empty());
  CHECK(parse_pipeline_layout("E(t|L").empty());
  CHECK(parse_pipeline_layout("Et*99999999999999|L").empty());
}

TEST_CASE("no plan that an engine ranks is refused by its rules") {
  for (const Engine* engine : engines()) {
    CAPTURE(std::string(engine->name));
    Question question = asked("llama3-8b", "dgx-h100", 8, 2048, 64);
    question.engines = {engine};
    question.workload.engine = engine->name;
    for (const Legal& legal : legal_sample(question, 40, 3))
      CHECK_FALSE(why_illegal(*engine, setting_of(question), legal.strategy));
  }
}
