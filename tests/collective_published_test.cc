#include <doctest/doctest.h>

#include <map>
#include <string>
#include <utility>

#include "base/json.h"
#include "base/quantity_text.h"
#include "support/median_error.h"
#include "support/priced_machine.h"
#include "time/collective.h"

using namespace ztplan;

namespace {

CollectiveOp op_of(const JsonView& text) {
  constexpr std::pair<std::string_view, CollectiveOp> kNames[] = {
      {"all_reduce", CollectiveOp::all_reduce},
      {"all_gather", CollectiveOp::all_gather},
      {"reduce_scatter", CollectiveOp::reduce_scatter},
      {"all_to_all", CollectiveOp::all_to_all}};
  for (const auto& [name, op] : kNames)
    if (name == text.string()) return op;
  text.fail("expected a collective");
}

Collective all_reduce(int ranks, std::int64_t bytes) {
  return {CollectiveOp::all_reduce, {ranks, 1}, {bytes}};
}

// Bus bandwidth in GB/s, as nccl-tests counts.
double bus(const Collective& work, const PricedMachine& on) {
  const double n = work.group.size;
  const double rounds = work.op == CollectiveOp::all_reduce ? 2 : 1;
  return rounds * (n - 1) / n * static_cast<double>(work.bytes.value) /
         price(work, on.machine()).value / 1e9;
}

struct Row {
  std::int64_t bytes;
  double microseconds;
};

template <std::size_t count>
Errors errors_of(const Row (&rows)[count], int ranks, const PricedMachine& on) {
  Errors errors;
  for (const Row& row : rows)
    errors.add(price(all_reduce(ranks, row.bytes), on.machine()),
               Seconds{row.microseconds * 1e-6});
  return errors;
}

}  // namespace

TEST_CASE("published one-node collectives: tests/published/collectives.json") {
  const JsonView file =
      JsonView::load(ZTPLAN_SOURCE_DIR "/tests/published/collectives.json");
  std::map<std::string, Errors> by_kind;
  Errors all;
  for (std::size_t i = 0; i < file.at("rows").size(); ++i) {
    const JsonView row = file.at("rows")[i];
    const std::string gpu = row.at("device").string();
    const Collective work{op_of(row.at("op")),
                          {row.at("ranks").small_integer(2, 8), 1},
                          {row.at("bytes").integer()}};
    const Seconds predicted = price(work, node_of(gpu).machine());
    const Seconds measured = parse_seconds(row.at("time").string());
    by_kind[gpu + " " + row.at("op").string()].add(predicted, measured);
    all.add(predicted, measured);
  }
  CHECK(by_kind.size() == 28);  // 7 machines, 4 collectives
  CHECK(all.count() == 196);
  CHECK(all.median() < 0.08);
  CHECK(std::abs(all.bias()) < 0.04);
  for (const auto& entry : by_kind) {
    CAPTURE(entry.first);
    CHECK(entry.second.median() < 0.20);
    CHECK(entry.second.worst() < 0.45);
  }
}

TEST_CASE("large collectives reach the bandwidth published for one node") {
  // Source: stas00/ml-engineering network @744d01e18b79 (H200, B200, A100: 8
  // GiB and more) and VIA-Research/vTrain trace/v100 @f8dda8473a48 (1 GiB; the
  // pair and the quad of a hybrid cube mesh).
  const std::int64_t large = 8LL << 30;
  const auto reached = [&](const char* gpu, int ranks) {
    return bus(all_reduce(ranks, large), node_of(gpu));
  };
  CHECK(reached("h200", 8) == doctest::Approx(473).epsilon(0.03));
  CHECK(reached("h200", 4) == doctest::Approx(363.3).epsilon(0.07));
  CHECK(reached("b200", 4) == doctest::Approx(673.2).epsilon(0.05));
  CHECK(reached("b200", 8) == doctest::Approx(741).epsilon(0.05));
  CHECK(reached("a100", 8) == doctest::Approx(235).epsilon(0.05));
  CHECK(reached("v100", 8) == doctest::Approx(134.5).epsilon(0.05));
  CHECK(reached("v100", 4) == doctest::Approx(85.4).epsilon(0.05));
  CHECK(reached("v100", 2) == doctest::Approx(22.6).epsilon(0.05));
  const Collective gather{CollectiveOp::all_gather, {8, 1}, {large}};
  const Collective scatter{CollectiveOp::reduce_scatter, {8, 1}, {large}};
  CHECK(bus(gather, node_of("h200")) == doctest::Approx(361).epsilon(0.04));
  CHECK(bus(scatter, node_of("h200")) == doctest::Approx(363).epsilon(0.05));
}

TEST_CASE("an all-to-all past LL takes the steps of Simple") {
  // Source: ai-dynamo/aiconfigurator comm/nccl/2.29.2 @095f58a51c4c, eight
  // devices, half precision, 256 KiB; with LL's steps 17 to 23 % less.
  const Collective quarter{CollectiveOp::all_to_all, {8, 1}, {256 << 10}};
  const auto microseconds = [&](const char* gpu) {
    return price(quarter, node_of(gpu).machine()).value * 1e6;
  };
  CHECK(microseconds("a100") == doctest::Approx(18.40).epsilon(0.15));
  CHECK(microseconds("h100") == doctest::Approx(12.93).epsilon(0.15));
  CHECK(microseconds("b200") == doctest::Approx(17.46).epsilon(0.15));
  CHECK(microseconds("b300") == doctest::Approx(16.92).epsilon(0.15));
}

TEST_CASE("NVLS takes over from the ring where it was seen to") {
  // Source: stas00/ml-engineering network: 8 H200, ring LL up to 1 MiB, NVLS
  // above; 2 to 4 H200 and 2 to 5 B200 stay on the ring.
  const auto choice = [](const char* gpu, int ranks, std::int64_t bytes) {
    return choose(all_reduce(ranks, bytes), node_of(gpu).machine());
  };
  CHECK(choice("h200", 8, 1 << 20).algorithm == Algorithm::ring);
  CHECK(choice("h200", 8, 1 << 18).protocol == Protocol::ll);
  CHECK(choice("h200", 8, 1 << 23).algorithm == Algorithm::nvls);
  CHECK(choice("h200", 8, 1LL << 30).algorithm == Algorithm::nvls);
  CHECK(choice("h200", 4, 1LL << 30).algorithm == Algorithm::ring);
  CHECK(choice("b200", 5, 1LL << 30).algorithm == Algorithm::ring);
  CHECK(choice("b200", 8, 1LL << 30).algorithm == Algorithm::nvls);
  CHECK(choice("a100", 8, 1LL << 30).algorithm == Algorithm::ring);
}

TEST_CASE("two nodes of A100 over RoCE reach their NICs") {
  // Source: oracle-quickstart/oci-hpc-oke @61d210acc37f: 1 to 8 GiB at 98.6,
  // 99.8, 100.5 and 101.1 GB/s, 16 NICs of 100 Gb/s a node.
  const PricedMachine two = nodes_of("a100", 2, {25e9});
  const Row rows[] = {{1LL << 30, 10887.4},
                      {2LL << 30, 21511.4},
                      {4LL << 30, 42748.7},
                      {8LL << 30, 84947.9}};
  CHECK(errors_of(rows, 16, two).median() < 0.05);
}

TEST_CASE("two nodes of H100 over EFA are met with its transport's latency") {
  // Source: aws-samples/awsome-distributed-training nccl-tests @7217859f67bc,
  // p5, all-reduce. 30 us a hop is what this series implies.
  PricedMachine two = nodes_of("h100", 2, {50e9});
  two.cluster.levels.back().achieved = 0.8;
  two.cluster.levels.back().latency = {30e-6};
  const Row rows[] = {{1 << 18, 127.9},  {1 << 20, 123.2},    {1 << 22, 168.6},
                      {1 << 24, 298.1},  {1 << 26, 601.5},    {1 << 28, 1468.2},
                      {1 << 30, 4607.5}, {4LL << 30, 17286.4}};
  CHECK(errors_of(rows, 16, two).median() < 0.15);
  CHECK(errors_of(rows, 16, two).worst() < 0.25);
}

TEST_CASE("four nodes of B200 over EFA, issued one by one from PyTorch") {
  // Source: stas00/ml-engineering network @744d01e18b79, less 22 us of launch.
  PricedMachine four = nodes_of("b200", 4, {50e9});
  four.cluster.levels.back().achieved = 0.9;
  four.cluster.levels.back().latency = {70e-6};
  const Row rows[] = {{1 << 19, 335.7},   {1 << 21, 369.4},   {1 << 23, 440.8},
                      {1 << 25, 690.9},   {1 << 27, 1291.8},  {1 << 29, 3160},
                      {2LL << 30, 11150}, {16LL << 30, 87160}};
  CHECK(errors_of(rows, 32, four).median() < 0.15);
  CHECK(errors_of(rows, 32, four).worst() < 0.30);
}
