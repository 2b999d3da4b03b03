// Files that are not what they should be: one line that says what is wrong.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "interop/failure_log.h"
#include "interop/format.h"

using namespace ztplan;

namespace {

struct Bad {
  const char* format;
  std::string text;
  const char* says;  // empty: any complaint, or none but no crash
};

std::string repeated(const std::string& piece, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += piece;
  return text;
}

const std::string kBinary("\x00\xff\xfe\x01{[\n:", 8);

std::vector<Bad> bad_files() {
  return {
      {"deepspeed", "{", "ds.json"},
      {"deepspeed", "[1, 2]", "expected an object"},
      {"deepspeed", R"({"train_batch_size": 8, "train_batch_size": 8})",
       "train_batch_size"},
      {"deepspeed", R"({"train_batch_size": -4})", "whole number"},
      {"deepspeed", R"({"train_batch_size": 1e300})", "whole number"},
      {"deepspeed", R"({"zero_optimization": {"stage": 7}})", "stage"},
      {"deepspeed", R"({"zero_optimization": "on"})", "object"},
      {"deepspeed", repeated("{\"a\":", 5000), "deep"},
      {"deepspeed", kBinary, "ds.json"},
      {"megatron", "", "no --arguments"},
      {"megatron", kBinary, "no --arguments"},
      {"megatron", "--num-layers many", "whole number"},
      {"megatron", "--num-layers 32 --hidden-size", "has no value"},
      {"megatron", "--num-layers 32 --seq-length \"2048", "quoted text"},
      {"megatron", "--num-layers 999999999", "from 1 to"},
      {"megatron", "--micro-batch-size 0", "from 1 to"},
      {"megatron", "--num-layers 99999999999999999999", "whole number"},
      {"torchtitan", "[training", "no TOML"},
      {"torchtitan", "training = 3", "must be a table"},
      {"torchtitan", "[training]\nseq_len = \"long\"", "whole number"},
      {"torchtitan", "[training]\na = 1\na = 2", "no TOML: line 3"},
      {"torchtitan", "[training]\nsteps =", "no TOML: line 2: missing value"},
      {"torchtitan", "[parallelism]\ntensor_parallel_degree = 0", "from 1"},
      {"torchtitan", "a = " + repeated("[", 5000), "deep"},
      {"torchtitan", kBinary, "no TOML"},
      {"accelerate", "a: [", "no YAML"},
      {"accelerate", "- 1\n- 2", "no map"},
      {"accelerate", "num_processes: 8\nnum_processes: 9", "twice"},
      {"accelerate", "num_processes: many", "whole number"},
      {"accelerate", "fsdp_config: 3\ndistributed_type: FSDP", "map"},
      {"accelerate", "mixed_precision: bf61", "mixed_precision"},
      {"accelerate", "a: " + repeated("[", 5000), "deep"},
      {"accelerate", repeated("- ", 5000), "deep"},
      {"accelerate", kBinary, "not UTF-8"},
      {"accelerate", "use_cpu: false\ndistributed_type: \xff\xfe", "line 2"},
      {"accelerate", "distributed_type: FSDP\n---\na: 1",
       "more than one document"},
      {"accelerate", "{a: 1}, b", "another begins on line 1"},
      {"fsdp", "{", "fsdp"},
      {"fsdp", R"({"mesh": {"dp_shard": 0}})", "dp_shard"},
      {"fsdp", R"({"param_dtype": "int3"})", "float32"},
      {"colossalai", R"({"plugin": "Magic", "arguments": {}})", "Plugin"},
      {"colossalai", R"({"plugin": "GeminiPlugin"})", "arguments"},
      {"colossalai",
       R"({"plugin": "LowLevelZeroPlugin", "arguments": {"stage": 3}})",
       "stage"},
      {"colossalai",
       R"({"plugin": "LowLevelZeroPlugin",
           "arguments": {"communication_dtype": "int8"}})",
       "expected float32"},
      {"colossalai",
       R"({"plugin": "GeminiPlugin", "arguments": {"tp_size": 0}})", "tp_size"},
  };
}

}  // namespace

TEST_CASE("a file that is no configuration is refused in one line") {
  for (const Bad& bad : bad_files()) {
    const std::string format = bad.format;
    const std::string shown = bad.text.substr(0, 60);
    CAPTURE(format);
    CAPTURE(shown);
    try {
      const std::string path = format == "deepspeed" ? "ds.json" : format;
      find_format(format).read(path, bad.text, {8, nullptr});
      CHECK(std::string(bad.says).empty());
    } catch (const Error& error) {
      const std::string what = error.what();
      CAPTURE(what);
      CHECK(what.find(bad.says) != std::string::npos);
      CHECK(what.find('\n') == std::string::npos);
    }
  }
}

TEST_CASE("a large file is read in one pass") {
  const std::string comments = repeated("# nothing\n", 1'000'000);
  CHECK_THROWS_AS(find_format("megatron").read("a.sh", comments, {}), Error);
  const std::string log = repeated("step 1 loss 2.3 tokens 4\n", 400'000);
  CHECK(read_failure_log(log).kind == FailureKind::none);
}

TEST_CASE("batches that contradict each other are found without the ranks") {
  const auto rules = [](const char* format, const char* text, int gpus) {
    std::vector<std::string> found;
    for (const Finding& finding :
         find_format(format).read("a.json", text, {gpus, nullptr}).findings)
      found.push_back(finding.key + ": " + finding.detail);
    return found;
  };
  const char* const three =
      R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 3,
          "gradient_accumulation_steps": 5})";
  const std::vector<std::string> alone = rules("deepspeed", three, 0);
  REQUIRE(alone.size() == 1);
  CHECK(alone[0] ==
        "train_batch_size: 64 is not a multiple of micro-batch 3 * "
        "accumulation 5 = 15, however many the ranks");
  const std::vector<std::string> of_two =
      rules("megatron", "--micro-batch-size 3 --global-batch-size 64", 8);
  REQUIRE(of_two.size() == 1);
  CHECK(of_two[0].starts_with("global-batch-size: 64 is not micro-batch 3"));
}

TEST_CASE("accelerate's types of distribution are held to its names") {
  const auto found = [](const char* text) {
    const Configuration c =
        find_format("accelerate").read("a.yaml", text, {8, nullptr});
    for (const Finding& finding : c.findings)
      if (std::string_view(finding.rule) == "distributed-type")
        return finding.detail + "; " + finding.remedy;
    return std::string();
  };
  CHECK(found("distributed_type: FSDP").empty());
  CHECK(found("distributed_type: FDSP") ==
        "there is no type \"FDSP\"; did you mean FSDP?");
  CHECK(found("mixed_precision: bf16").starts_with("it is required"));
}

TEST_CASE("a line of a log is shown as a terminal may show it") {
  const FailureLog log = read_failure_log(std::string("\x1b[31m\xff") +
                                          "CUDA out of memory\nnext");
  CHECK(log.line ==
        "\\x1b[31m\\xff"
        "CUDA out of memory");
}

TEST_CASE("unknown names are refused with the nearest") {
  CHECK_THROWS_AS(find_format("deepspede"), Error);
  CHECK_THROWS_AS(parse_launcher("ssh"), Error);
  CHECK_THROWS_AS(recognize("a.json", "{}"), Error);
  CHECK_THROWS_WITH(recognize("launch.sh", "torchrun train.py"),
                    doctest::Contains("looks like no configuration"));
}

TEST_CASE("what DeepSpeed ignores or refuses is found") {
  struct Row {
    const char* text;
    const char* rule;
    Severity severity;
  };
  constexpr Row kRows[] = {
      {R"({"train_batch_size": 8, "zero_optimisation": {"stage": 3}})",
       "unknown-key", Severity::trap},
      {R"({"train_batch_size": 8, "zero_optimization": {"stagee": 3}})",
       "unknown-key", Severity::refused},
      {R"({"train_batch_size": 8, "bf16": {"enabled": true},
           "fp16": {"enabled": true}})",
       "one-precision", Severity::refused},
      {R"({"train_batch_size": 8, "zero_optimization": {"stage": 2,
           "offload_param": {"device": "cpu"}}})",
       "offload-param-ignored", Severity::trap},
      {R"({"train_batch_size": 8, "zero_optimization": {"stage": 3,
           "offload_optimizer": {"device": "nvme"}}})",
       "nvme-path", Severity::refused},
      {R"({"train_batch_size": 8, "zero_optimization": {"stage": 1,
           "allgather_bucket_size": 5}})",
       "odd-allgather-bucket", Severity::refused},
      {R"({"train_batch_size": 8, "aio": {"thread_count": 4}})",
       "thread-count-ignored", Severity::trap},
      {R"({"train_batch_size": 8, "optimizer": {"type": "AdamW",
           "params": {"max_grad_norm": 1}}})",
       "max-grad-norm", Severity::refused},
      {R"({"steps_per_print": 1})", "batch-missing", Severity::refused},
      {R"({"train_micro_batch_size_per_gpu": "auto"})", "auto-values",
       Severity::advice},
  };
  for (const Row& row : kRows) {
    CAPTURE(std::string(row.rule));
    const Configuration read =
        find_format("deepspeed").read("ds.json", row.text, {8, nullptr});
    bool found = false;
    for (const Finding& finding : read.findings) {
      if (finding.rule != row.rule || finding.severity != row.severity)
        continue;
      found = true;
      CHECK(!finding.source.empty());
      CHECK(!finding.remedy.empty());
    }
    CHECK(found);
  }
}
