// The keys that scripts rely on, copied from the contract, in what the program
// prints. Read back with another JSON library.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/answers.h"
#include "support/temporary_directory.h"

using namespace ztplan;
using nlohmann::json;

namespace {

using Words = std::vector<std::string>;

const std::string kSmall = " --model gpt2 --gpus 8";

void check_keys(const json& object, const Words& keys) {
  for (const std::string& key : keys) {
    CAPTURE(key);
    CHECK(object.contains(key));
  }
}

const Words kMemoryTerms = {"parameters_bytes", "gradients_bytes",
                            "optimizer_bytes",  "activations_bytes",
                            "gathered_bytes",   "buffers_bytes",
                            "overhead_bytes"};
const Words kStepTerms = {
    "compute_seconds",     "tensor_comm_seconds", "context_comm_seconds",
    "expert_comm_seconds", "data_comm_seconds",   "pipeline_comm_seconds",
    "offload_seconds",     "optimizer_seconds",   "bubble_seconds"};

void check_memory(const json& memory) {
  check_keys(memory, kMemoryTerms);
  check_keys(memory, {"peak_bytes", "capacity_bytes", "fits", "host_bytes",
                      "nvme_bytes", "stages", "state_bytes", "reserved_bytes",
                      "device_used_bytes", "load_peak_bytes",
                      "activation_bytes_per_layer", "largest_tensor"});
  check_keys(memory.at("largest_tensor"), {"name", "bytes"});
  check_keys(memory.at("stages").at(0), {"stage", "peak_bytes"});
  std::int64_t sum = 0;
  for (const std::string& term : kMemoryTerms) {
    CHECK(memory.at(term).is_number_integer());
    sum += memory.at(term).get<std::int64_t>();
  }
  CHECK(sum == memory.at("peak_bytes").get<std::int64_t>());
}

void check_time(const json& time) {
  check_keys(time, kStepTerms);
  check_keys(time, {"step_seconds", "low_seconds", "high_seconds"});
  double sum = 0;
  for (const std::string& term : kStepTerms) sum += time.at(term).get<double>();
  const double step = time.at("step_seconds").get<double>();
  CHECK(sum == doctest::Approx(step).epsilon(1e-12));
  CHECK(time.at("low_seconds").get<double>() <= step);
  CHECK(time.at("high_seconds").get<double>() >= step);
}

void check_plan(const json& plan) {
  check_keys(plan, {"rank", "strategy", "memory", "time", "throughput",
                    "traffic", "engine"});
  check_keys(plan.at("strategy"),
             {"text", "tp", "pp", "vpp", "cp", "ep", "dp", "sp", "zero",
              "offload", "recompute", "micro_batch", "schedule"});
  CHECK(plan.at("strategy").at("sp").is_boolean());
  check_memory(plan.at("memory"));
  check_time(plan.at("time"));
  check_keys(plan.at("throughput"),
             {"tokens_per_second", "tokens_per_second_per_gpu",
              "model_tflops_per_gpu", "hardware_tflops_per_gpu", "mfu", "hfu"});
  check_keys(plan.at("traffic"),
             {"tensor_bytes", "data_bytes", "pipeline_bytes", "context_bytes",
              "expert_bytes", "offload_bytes"});
}

void check_question(const json& all) {
  check_keys(all.at("model"), {"name", "parameters"});
  check_keys(all.at("cluster"),
             {"name", "gpus", "gpus_per_node", "memory_bytes_per_gpu"});
  check_keys(all.at("workload"),
             {"sequence", "global_batch", "precision", "engine"});
}

/// Every number that is bytes by its key, or by the unit beside it.
void check_bytes(const json& part, const std::string& key) {
  if (part.is_structured()) {
    for (const auto& [name, inner] : part.items()) check_bytes(inner, name);
    const bool of_bytes = part.is_object() && part.value("unit", "") == "bytes";
    if (of_bytes) CHECK(part.at("a").is_number_integer());
    if (of_bytes) CHECK(part.at("b").is_number_integer());
    return;
  }
  const bool bytes = key.find("bytes") != std::string::npos &&
                     key.find("second") == std::string::npos;
  CAPTURE(key);
  if (bytes && part.is_number()) CHECK(part.is_number_integer());
}

}  // namespace

TEST_CASE("plan --json has the keys of ztplan.plan/1") {
  const json all = answer("plan" + kSmall);
  CHECK(all.at("schema") == "ztplan.plan/1");
  check_question(all);
  check_keys(all.at("search"), {"candidates", "illegal", "too_big", "fit"});
  const json& search = all.at("search");
  CHECK(search.at("illegal").get<int>() + search.at("too_big").get<int>() +
            search.at("fit").get<int>() ==
        search.at("candidates").get<int>());
  REQUIRE(all.at("plans").size() == 5);
  int rank = 0;
  for (const json& plan : all.at("plans")) {
    check_plan(plan);
    CHECK(plan.at("rank") == ++rank);
  }
  REQUIRE(all.at("against_best").size() == 4);
  for (const json& other : all.at("against_best")) {
    CHECK(other.at("low").get<double>() < other.at("step_ratio"));
    CHECK(other.at("step_ratio").get<double>() < other.at("high"));
    CHECK(other.at("told_apart").is_boolean());
  }
}

TEST_CASE("plan without a legal strategy says which rule, once") {
  for (const char* limits :
       {"--tp 3", "--tp 8", "--dp 3", "--tp 3,5 --dp 5", "--vpp 2 --pp 1",
        "--tp 1000000 --pp 1000000 --cp 1000000", "--ep 2", "--pp 8 --tp 2"}) {
    CAPTURE(limits);
    const Answer found = run_json("plan" + kSmall + " " + limits);
    CHECK(found.exit_code == 4);
    const json& misfits = found.data.at("misfits");
    REQUIRE(misfits.size() == 1);
    check_keys(misfits[0], {"rule", "detail", "nearest", "engine", "source"});
    CHECK(misfits[0].at("nearest") != "");
    const std::string text = run_line("plan" + kSmall + " " + limits).output;
    CHECK(text.find(misfits[0].at("rule").get<std::string>()) !=
          std::string::npos);
  }
}

TEST_CASE("memory --json has the keys of ztplan.memory/1") {
  const json all = answer("memory --strategy zero=1 --over-time" + kSmall);
  CHECK(all.at("schema") == "ztplan.memory/1");
  check_question(all);
  REQUIRE(all.at("plans").size() == 1);
  check_plan(all.at("plans").at(0));
  check_keys(all.at("holdings").at(0),
             {"term", "tier", "bytes", "from", "until", "what", "source"});
  std::int64_t most = 0;
  for (const json& point : all.at("over_time").at(0).at("points")) {
    most = std::max(most, point.at("bytes").get<std::int64_t>());
  }
  CHECK(
      most ==
      all.at("plans").at(0).at("memory").at("peak_bytes").get<std::int64_t>());
}

TEST_CASE("simulate --json has the keys of ztplan.simulate/1") {
  const json all = answer("simulate --strategy pp=2,zero=1" + kSmall);
  CHECK(all.at("schema") == "ztplan.simulate/1");
  check_question(all);
  check_plan(all.at("plans").at(0));
  CHECK(all.at("stages").size() == 2);
}

TEST_CASE("explain --json says which verdict and why") {
  const json all = answer("explain --strategy tp=4,sp=1" + kSmall);
  CHECK(all.at("schema") == "ztplan.explain/1");
  CHECK(all.at("verdict") == "slower");
  CHECK(!all.at("reasons").empty());
  check_plan(all.at("best").at(0));
}

TEST_CASE("models --json has the keys of ztplan.models/1") {
  const json all = answer("models");
  CHECK(all.at("schema") == "ztplan.models/1");
  CHECK(all.at("models").size() > 100);
  for (const json& model : all.at("models")) {
    check_keys(model, {"name", "aliases", "hub_id", "parameters", "source"});
  }
  const json one = answer("models show gpt2");
  CHECK(one.at("models").at(0).at("parameters") == 124439808);
}

TEST_CASE("hardware --json has the keys of ztplan.hardware/1") {
  const json all = answer("hardware");
  CHECK(all.at("schema") == "ztplan.hardware/1");
  check_keys(all, {"devices", "nodes", "networks", "clusters"});
  const json one = answer("hardware show h100");
  CHECK(one.at("devices").at(0).at("id") == "h100-sxm-80gb");
  CHECK(one.at("nodes").empty());
}

TEST_CASE("validate --json has the keys of ztplan.validate/1") {
  const TemporaryDirectory here;
  const std::string table = here.write(
      "runs.csv",
      "id,model,gpu,gpus,global_batch,measured_step_s\n"
      "r1,gpt2,A100-SXM-80GB,8,512,1.5\nr2,gpt2 (Adapter),H100,8,512,1\n");
  const json all = answer("validate " + table);
  CHECK(all.at("schema") == "ztplan.validate/1");
  check_keys(
      all.at("runs").at(0),
      {"id", "predicted_step_seconds", "measured_step_seconds", "time_error",
       "predicted_peak_bytes", "measured_peak_bytes", "memory_error", "fit"});
  CHECK(!all.at("runs").at(0).contains("skipped"));
  CHECK(all.at("runs").at(1).at("skipped") ==
        "adapters other than LoRA cannot be said yet");
  check_keys(all.at("time"),
             {"count", "median_abs_error", "p90_abs_error", "bias"});
  check_keys(all.at("time"), {"intervals", "held", "coverage"});
  check_keys(all.at("memory"), {"count"});
  CHECK(all.at("time").at("count") == 1);
  CHECK(all.at("time").at("intervals") == 1);
  CHECK(all.at("fits").at("ran") == 1);
}

TEST_CASE("the version is JSON however it is asked") {
  for (const char* line : {"version", "--version", "-V"})
    CHECK(answer(line).at("schema") == "ztplan.version/1");
}

TEST_CASE("an error is JSON on stdout, with the exit code of its kind") {
  const Answer bad = run_json("plan --model gtp2 --gpus 8");
  CHECK(bad.exit_code == 2);
  check_keys(bad.data.at("error"), {"code", "message", "hint"});
  const json override = json::parse(run_line("plan --json=1").output);
  CHECK(override.at("error").at("message") == "--json takes no value");
  const Answer illegal = run_json("memory --model gpt2 --strategy tp=5");
  CHECK(illegal.exit_code == 4);
  check_keys(illegal.data.at("error"), {"code", "message", "hint"});
}

TEST_CASE("the same input gives the same bytes, and timing only when asked") {
  const std::string line = "plan --json" + kSmall;
  const std::string first = run_line(line).output;
  CHECK(run_line(line).output == first);
  CHECK(!json::parse(first).contains("timing"));
  const json timed = answer("plan --timing" + kSmall);
  CHECK(timed.at("timing").at("seconds") > 0);
}

TEST_CASE("bytes are integers in every answer") {
  for (const char* line :
       {"plan", "memory --over-time --strategy zero=1",
        "simulate --strategy pp=2", "explain --strategy tp=4,sp=1",
        "compare zero=0 zero=1", "gpus --gpu h100",
        "check --strategy zero=2"}) {
    CAPTURE(line);
    check_bytes(answer(line + kSmall), "");
  }
  check_bytes(answer("hardware"), "");
  check_bytes(answer("models"), "");
}
