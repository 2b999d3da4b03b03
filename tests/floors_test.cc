#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "support/include_graph.h"

using namespace ztplan;

namespace {

const std::filesystem::path kRoot = ZTPLAN_SOURCE_DIR;

bool is_source(const std::filesystem::path& path) {
  static const std::set<std::string> endings{".h", ".cc", ".cu", ".cuh"};
  return endings.contains(path.extension().string());
}

std::vector<std::string> sources() {
  std::vector<std::string> found;
  for (const char* folder :
       {"src", "cli", "calibrate", "tests", "bench", "examples"}) {
    if (!std::filesystem::exists(kRoot / folder)) continue;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(kRoot / folder)) {
      if (!is_source(entry.path())) continue;
      found.push_back(entry.path().lexically_relative(kRoot).string());
    }
  }
  std::ranges::sort(found);
  return found;
}

bool exists_in_house(const std::string& target) {
  return std::ranges::any_of(
      std::vector<std::string>{"src", ".", "tests"},
      [&](const std::string& folder) {
        return std::filesystem::exists(kRoot / folder / target);
      });
}

}  // namespace

TEST_CASE("no arrow climbs and each dependency has one door") {
  const std::vector<std::string> files = sources();
  CHECK(files.size() > 20);
  for (const std::string& file : files) {
    const std::string source =
        read_file((kRoot / file).string(), Bytes{16 * kMiB});
    for (const std::string& rule : broken_rules(file, source)) FAIL_CHECK(rule);
    for (const Include& include : includes_of(source)) {
      const bool found = include.system || exists_in_house(include.target);
      CHECK_MESSAGE(found, file, " includes ", include.target);
    }
  }
}

TEST_CASE("a planted arrow is found") {
  struct Row {
    std::string path, include;
    bool allowed;
  };
  const Row rows[] = {
      {"src/base/json.cc", "\"base/json.h\"", true},
      {"src/base/json.cc", "\"spec/model.h\"", false},
      {"src/spec/model.cc", "\"base/units.h\"", true},
      {"src/strategy/engines/megatron.cc", "\"step/work.h\"", false},
      {"src/step/work.h", "\"strategy/strategy.h\"", true},
      {"src/step/work.h", "\"time/price.h\"", false},
      {"src/time/price.cc", "\"search/rank.h\"", false},
      {"src/search/rank.cc", "\"time/price.h\"", true},
      {"src/search/rank.cc", "\"report/report.h\"", false},
      {"src/report/report.cc", "\"search/rank.h\"", true},
      {"src/report/report.cc", "\"interop/deepspeed.h\"", false},
      {"src/interop/deepspeed.cc", "\"report/report.h\"", false},
      {"src/interop/deepspeed.cc", "\"search/rank.h\"", true},
      {"src/exec/executor.cc", "\"step/step_graph.h\"", true},
      {"src/exec/executor.cc", "\"time/simulate.h\"", false},
      {"src/exec/cpu_device.cc", "\"calibrate/kernels/matmul.h\"", true},
      {"calibrate/kernels/matmul.cc", "\"exec/device.h\"", false},
      {"calibrate/fit.cc", "\"exec/device.h\"", true},
      {"calibrate/fit.cc", "\"search/rank.h\"", false},
      {"calibrate/fit.cc", "\"time/price.h\"", false},
      {"src/report/report.cc", "\"cli/options.h\"", false},
      {"cli/plan.cc", "\"report/report.h\"", true},
      {"src/spec/model.cc", "\"model.h\"", false},
      {"src/spec/model.cc", "\"../time/price.h\"", false},
      {"src/spec/model.cc", "\"support/messages.h\"", false},
      {"stray.cc", "<vector>", false},
      {"src/base/json.cc", "<nlohmann/json.hpp>", true},
      {"src/base/json.h", "<nlohmann/json.hpp>", false},
      {"src/report/json.cc", "<nlohmann/json.hpp>", true},
      {"src/report/json.h", "<nlohmann/json.hpp>", false},
      {"src/interop/hf.cc", "\"nlohmann/json.hpp\"", false},
      {"src/spec/catalog.cc", "<nlohmann/json.hpp>", false},
      {"src/step/step_graph.cc", "<boost/graph/adjacency_list.hpp>", true},
      {"src/step/build_step.cc", "<boost/graph/adjacency_list.hpp>", false},
      {"calibrate/fit.cc", "<Eigen/Dense>", true},
      {"src/time/price.cc", "<eigen3/Eigen/Dense>", false},
      {"src/exec/cuda_device.cu", "<cuda_runtime.h>", true},
      {"src/exec/device.h", "<cuda_runtime.h>", false},
      {"src/exec/cuda_absent.cc", "<nccl.h>", false},
      {"src/exec/mpi/mail.cc", "<mpi.h>", true},
      {"src/exec/training.cc", "<mpi.h>", false},
      {"cli/main.cc", "<CLI/CLI.hpp>", true},
      {"src/report/report.cc", "<CLI/CLI.hpp>", false},
      {"src/base/json.cc", "<doctest/doctest.h>", false},
      {"src/base/json.cc", "<vector>", true},
  };
  for (const Row& row : rows) {
    CAPTURE(row.path);
    CAPTURE(row.include);
    const std::string source =
        "// text\n#include " + row.include + "\nint x;\n";
    CHECK(broken_rules(row.path, source).empty() == row.allowed);
  }
}

TEST_CASE("an include is found however it is written") {
  const auto found = includes_of(
      "#pragma once\n"
      "  #  include   \"a/b.h\"  // why\n"
      "// #include \"not/this.h\"\n"
      "#include <c.h>\n");
  REQUIRE(found.size() == 2);
  CHECK(found[0].target == "a/b.h");
  CHECK(found[0].line == 2);
  CHECK_FALSE(found[0].system);
  CHECK(found[1].target == "c.h");
  CHECK(found[1].system);
}
