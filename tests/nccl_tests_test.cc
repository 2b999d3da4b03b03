#include "interop/nccl_tests.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <sstream>
#include <string>

#include "calibrate/group_logs.h"
#include "support/answers.h"
#include "support/messages.h"
#include "support/temporary_directory.h"

using namespace ztplan;

namespace {

/// Eight ranks on two hosts, the sizes and times of `rows`, as 2.19 prints.
std::string log_text(const std::string& rows) {
  std::string text =
      "# nccl-tests version 2.19.6 nccl-headers=22703 nccl-library=22703\n"
      "# Collective test starting: AllReduce\n"
      "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 8388608 step: 8(factor) "
      "warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0\n"
      "#\n# Using devices\n";
  for (int rank = 0; rank < 8; ++rank)
    text += fmt::format(
        "#  Rank {:2d} Group  0 Pid {:6d} on      node{} device {:2d} "
        "[0000:07:00] NVIDIA H100 80GB HBM3\n",
        rank, 4000 + rank, rank / 4, rank % 4);
  text +=
      "#                                                              "
      "out-of-place                       in-place          \n"
      "#       size         count      type   redop    root     time   algbw   "
      "busbw #wrong     time   algbw   busbw #wrong\n";
  return text + rows +
         "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 60.1\n#\n";
}

constexpr const char* kRows =
    "     1048576        262144     float     sum      -1    61.50   17.05   "
    "29.84      0    60.90   17.22   30.13      0\n"
    "     8388608       2097152     float     sum      -1    162.1   51.75   "
    "90.56      0    161.0   52.10   91.18      0\n";

constexpr const char* kJson = R"({
  "version": 3, "start_time": "a", "end_time": "b",
  "args": ["./build/all_gather_perf", "-b", "1M"], "env": [],
  "nccl_version": 22703,
  "config": {"nthreads": 1, "ngpus": 2, "devices": [
    {"rank": 0, "group": 0, "hostname": "a"},
    {"rank": 1, "group": 0, "hostname": "a"}]},
  "results": [
    {"size": 0, "count": 0, "type": "float", "redop": "none",
     "root": "    -1", "out_of_place": {"time": 3.0}, "in_place": null},
    {"size": 1048576, "count": 131072, "type": "float", "redop": "none",
     "root": "    -1",
     "out_of_place": {"time": 20.5, "alg_bw": 51.15, "bus_bw": 25.6},
     "in_place": {"time": 20.1, "alg_bw": 52.2, "bus_bw": 26.1}},
    {"size": 2097152, "count": 262144, "type": "float", "redop": "none",
     "root": "    -1", "out_of_place": null,
     "in_place": {"time": 30.0, "alg_bw": 69.9, "bus_bw": 34.9}}],
  "average_bus_bandwidth": {"bandwidth": 30.0, "okay": "unchecked"}})";

NcclLog read(const std::string& name, const std::string& text) {
  const TemporaryDirectory folder;
  return read_nccl_tests(folder.write(name, text));
}

}  // namespace

TEST_CASE("nccl-tests' text is read, with a launcher's tags too") {
  std::istringstream lines(log_text(kRows));
  std::string tagged;
  for (std::string line; std::getline(lines, line);)
    tagged += "[1,0]<stdout>: " + line + "\n";
  for (const std::string& text : {log_text(kRows), tagged}) {
    const NcclLog log = read("out.log", text);
    CHECK(log.op == CollectiveOp::all_reduce);
    CHECK(log.ranks == 8);
    CHECK(log.nodes == 2);
    CHECK(log.hosts == "node0, node1");
    REQUIRE(log.rows.size() == 2);
    CHECK(log.rows[0].bytes.value == 1048576);
    CHECK(log.rows[0].seconds.value == doctest::Approx(61.5e-6));
    CHECK(log.rows[1].seconds.value == doctest::Approx(162.1e-6));
  }
}

TEST_CASE("an old log is named by its file") {
  std::string old = log_text(kRows);
  old.erase(0, old.find("# nThread"));
  CHECK(read("reduce_scatter_8.txt", old).op == CollectiveOp::reduce_scatter);
  CHECK(refusal([&] {
          read("out.log", old);
        }).find("does not say which collective") != std::string::npos);
}

TEST_CASE("nccl-tests' JSON is read, out of place where that was run") {
  const NcclLog log = read("out.json", kJson);
  CHECK(log.op == CollectiveOp::all_gather);
  CHECK(log.ranks == 2);
  CHECK(log.nodes == 1);
  REQUIRE(log.rows.size() == 2);
  CHECK(log.rows[0].seconds.value == doctest::Approx(20.5e-6));
  CHECK(log.rows[1].seconds.value == doctest::Approx(30e-6));
}

TEST_CASE("what is no log of nccl-tests is refused") {
  struct Row {
    std::string text, expected;
  };
  const std::string whole = log_text(kRows);
  std::string wrong = whole, nobody = whole;
  wrong.replace(wrong.find("61.50"), 5, "16.50");
  while (nobody.find("#  Rank") != std::string::npos)
    nobody.erase(nobody.find("#  Rank"), 7);
  const Row rows[] = {
      {"", "no rows"},
      {"size,time\n1,2\n", "no rows"},
      {log_text(""), "no rows"},
      {wrong, "line 16: the bandwidth"},
      {nobody, "names no ranks"},
      {"{\"results\": []}", "args"},
      {std::string(kJson).substr(0, 300), "all_reduce.log"},
  };
  for (const Row& row : rows) {
    const std::string said = refusal([&] { read("all_reduce.log", row.text); });
    CAPTURE(said);
    CHECK(said.find(row.expected) != std::string::npos);
  }
}

TEST_CASE("logs of many groups join, and the slow one is named") {
  const auto log = [](const char* name, double factor) {
    GroupLog made{name, "all_reduce/8", {}};
    for (const double bytes : {1e4, 1e6, 1e8})
      made.rows.push_back({bytes, {factor * (1e-5 + bytes * 1e-11)}});
    return made;
  };
  const std::vector<GroupLog> logs{log("a", 1), log("b", 1.02), log("c", 1.5),
                                   log("d", 0.99)};
  MeasuredMachine machine;
  add_logs(machine, logs);
  const ProbeCurve& curve = machine.curves.at("all_reduce/8");
  REQUIRE(curve.samples.size() == 3);
  CHECK(curve.samples[0].repeats == 4);
  CHECK(curve.samples[0].median.value == doctest::Approx(1.02 * 1.01e-5));
  CHECK(curve.samples[0].high.value == doctest::Approx(1.5 * 1.01e-5));
  const auto slow = slow_logs(logs);
  REQUIRE(slow.size() == 1);
  CHECK(slow[0].name == "c");
}

TEST_CASE("a plan takes what nccl-tests measured across its nodes") {
  const TemporaryDirectory folder;
  const std::string log = folder.write("a.log", log_text(kRows));
  const std::string out = folder.file("m.json");
  const CommandResult imported = run_line("calibrate --import-nccl-tests " +
                                          log + " --gpu h100 -o " + out);
  CHECK(imported.exit_code == 0);
  CHECK(imported.output.find("all_reduce/2x4") != std::string::npos);
  const std::string plan =
      "simulate --model gpt:layers=2,hidden=1024,heads=16 --seq 1024 "
      "--global-batch 8 --cluster dgx-h100 --gpus-per-node 4 --gpus 8 "
      "--strategy dp=8 --json";
  CHECK(run_line(plan + " --calibration " + out).output !=
        run_line(plan).output);
  CHECK(run_line("calibrate --import-nccl-tests " + log + " -o " + out)
            .exit_code == 2);
}
