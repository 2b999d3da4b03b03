#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

#include "support/priced_machine.h"
#include "time/collective.h"

using namespace ztplan;

namespace {

constexpr CollectiveOp kOps[] = {
    CollectiveOp::all_reduce, CollectiveOp::all_gather,
    CollectiveOp::reduce_scatter, CollectiveOp::all_to_all,
    CollectiveOp::send_receive};

// Machines that may not exist: one to three levels of any kind and rate.
class Any {
 public:
  explicit Any(unsigned seed) : random_(seed) {}

  int between(int low, int high) {
    return std::uniform_int_distribution(low, high)(random_);
  }
  double rate() {
    return std::pow(10, std::uniform_real_distribution(9.0, 12.0)(random_));
  }

  PricedMachine machine() {
    constexpr const char* kGpus[] = {"v100", "a100",  "h100", "h200",
                                     "b200", "gb200", "l40s"};
    PricedMachine made = node_of(kGpus[between(0, 6)]);
    made.cluster.levels.clear();
    made.cluster.devices = 1;
    add_level(made, local_kind(), between(1, 9));
    if (between(0, 2) == 0) add_level(made, LinkKind::pcie, between(1, 4));
    made.cluster.devices_per_node = made.cluster.devices;
    for (int networks = between(0, 2); networks > 0; --networks)
      add_level(made, LinkKind::network, between(2, 40));
    return made;
  }

  Group group(const PricedMachine& in) {
    const int stride = 1 << between(0, 4);
    const int most = std::max(2, in.cluster.devices / stride);
    return {between(2, most), stride};
  }

 private:
  LinkKind local_kind() {
    constexpr LinkKind kKinds[] = {LinkKind::nvlink, LinkKind::nvlink,
                                   LinkKind::xgmi, LinkKind::pcie,
                                   LinkKind::memory};
    return kKinds[between(0, 4)];
  }

  void add_level(PricedMachine& made, LinkKind kind, int fanout) {
    Level level;
    level.kind = kind;
    level.fanout = fanout;
    level.bandwidth = {rate()};
    level.achieved = 0.1 * between(5, 10);
    level.latency = {1e-6 * between(0, 80)};
    level.in_network_reduction = between(0, 1) == 1;
    made.cluster.levels.push_back(level);
    made.cluster.devices *= fanout;
  }

  std::mt19937 random_;
};

Seconds time(CollectiveOp op, const Group& group, std::int64_t bytes,
             const PricedMachine& on) {
  return price(Collective{op, group, {bytes}}, on.machine());
}

}  // namespace

TEST_CASE("more bytes never take less time, on any machine") {
  Any any(1);
  for (int i = 0; i < 300; ++i) {
    const PricedMachine on = any.machine();
    const Group group = any.group(on);
    for (const CollectiveOp op : kOps) {
      Seconds before{};
      for (double bytes = 1; bytes < 1e11; bytes *= 1.19) {
        const Seconds now =
            time(op, group, static_cast<std::int64_t>(bytes), on);
        REQUIRE(std::isfinite(now.value));
        REQUIRE(now >= before);
        before = now;
      }
    }
  }
}

TEST_CASE("a faster link or transport never takes more time") {
  Any any(2);
  for (int i = 0; i < 2000; ++i) {
    const PricedMachine slow = any.machine();
    const Group group = any.group(slow);
    const std::int64_t bytes = std::int64_t{1} << any.between(0, 33);
    PricedMachine fast = slow;
    Level& level = fast.cluster.levels.at(static_cast<std::size_t>(
        any.between(0, static_cast<int>(fast.cluster.levels.size()) - 1)));
    if (any.between(0, 1) == 0)
      level.bandwidth = level.bandwidth * (1 + 0.01 * any.between(1, 300));
    else
      level.latency = level.latency * 0.5;
    for (const CollectiveOp op : kOps)
      REQUIRE(time(op, group, bytes, fast) <= time(op, group, bytes, slow));
  }
}

TEST_CASE("the ends of the bands enclose the price") {
  Any any(3);
  for (int i = 0; i < 1000; ++i) {
    const PricedMachine likely = any.machine();
    const Group group = any.group(likely);
    const std::int64_t bytes = std::int64_t{1} << any.between(0, 33);
    PricedMachine fast = likely, slow = likely;
    fast.calibration = optimistic(likely.calibration);
    slow.calibration = pessimistic(likely.calibration);
    for (const CollectiveOp op : kOps) {
      REQUIRE(time(op, group, bytes, fast) <= time(op, group, bytes, likely));
      REQUIRE(time(op, group, bytes, slow) >= time(op, group, bytes, likely));
    }
  }
}

TEST_CASE("a group of one costs nothing") {
  for (const CollectiveOp op : kOps)
    CHECK(time(op, {1, 1}, 1LL << 30, nodes_of("h100", 4, {50e9})) ==
          Seconds{0});
}

TEST_CASE("ten million devices take a finite time") {
  const PricedMachine huge = nodes_of("b200", 1'250'000, {50e9});
  for (const CollectiveOp op : kOps) {
    for (const Group& group : {Group{10'000'000, 1}, Group{1'250'000, 8}}) {
      CHECK(std::isfinite(time(op, group, 1LL << 40, huge).value));
      CHECK(time(op, group, 1LL << 40, huge).value > 0);
    }
  }
}

TEST_CASE("a ring moves at the slowest link it crosses") {
  // 16 nodes of 8; each device has a NIC of 25 GB/s, 0.93 of it attained.
  const PricedMachine on = nodes_of("h100", 16, {25e9});
  const double bytes = 64e9;
  const auto seconds = [&](const Group& group) {
    return time(CollectiveOp::all_gather, group, 64'000'000'000, on).value;
  };
  const auto ring = [&](double n, double rate) {
    return (n - 1) / n * bytes / rate;
  };
  // Whole nodes: eight NICs serve the ring. One rank a node: one.
  CHECK(seconds({128, 1}) ==
        doctest::Approx(ring(128, 8 * 25e9 * 0.93)).epsilon(0.07));
  CHECK(seconds({64, 2}) ==
        doctest::Approx(ring(64, 4 * 25e9 * 0.93)).epsilon(0.07));
  CHECK(seconds({16, 8}) ==
        doctest::Approx(ring(16, 25e9 * 0.93)).epsilon(0.08));
  // Inside a node the NICs do not matter.
  CHECK(seconds({8, 1}) < seconds({16, 1}) / 1.5);
}

TEST_CASE("a third level binds where it is the narrowest") {
  PricedMachine on = nodes_of("h100", 4, {50e9});
  Level core = on.cluster.levels.back();
  core.fanout = 4;
  core.bandwidth = {5e9};  // oversubscribed ten to one
  on.cluster.levels.push_back(core);
  on.cluster.devices *= 4;
  const auto seconds = [&](int ranks) {
    return time(CollectiveOp::all_gather, {ranks, 1}, 64'000'000'000, on).value;
  };
  // 32 devices of a pod share its way out: 160 GB/s against 360 of NVLink.
  CHECK(seconds(32) < 64e9 / 300e9);
  CHECK(seconds(128) ==
        doctest::Approx(64e9 / (32 * 5e9 * 0.93)).epsilon(0.05));
}

TEST_CASE("neighbouring stages send through one NIC each, all at once") {
  const PricedMachine on = nodes_of("h100", 16, {50e9});
  const auto seconds = [&](const Group& pair, std::int64_t bytes) {
    return time(CollectiveOp::send_receive, pair, bytes, on).value;
  };
  CHECK(seconds({2, 8, 16}, 1'000'000'000) ==
        doctest::Approx(1e9 / (50e9 * 0.93)).epsilon(0.01));
  CHECK(seconds({2, 1, 8}, 1'000'000'000) ==
        doctest::Approx(1e9 / (360e9 * 0.9)).epsilon(0.01));
  // Start: 8 to 15 us inside a node, 15 to 30 us over RDMA.
  CHECK(seconds({2, 1, 8}, 8) == doctest::Approx(11e-6).epsilon(0.01));
  CHECK(seconds({2, 8, 16}, 8) == doctest::Approx(22e-6).epsilon(0.01));
}

TEST_CASE("all-to-all sends what leaves the node through the NICs") {
  const PricedMachine on = nodes_of("h100", 4, {50e9});
  const std::int64_t bytes = 1'000'000'000;
  const double inside = time(CollectiveOp::all_to_all, {8, 1}, bytes, on).value;
  const double across =
      time(CollectiveOp::all_to_all, {32, 1}, bytes, on).value;
  CHECK(across > 24.0 / 32 * 1e9 / 50e9);
  CHECK(across < 1.1 * (24.0 / 32 * 1e9 / (50e9 * 0.93) + inside * 8 / 32));
}

TEST_CASE("threads of one host pay for each round and each byte") {
  PricedMachine host = node_of("a100");
  Level memory;
  memory.kind = LinkKind::memory;
  memory.fanout = 4;
  memory.bandwidth = {3e9};
  memory.latency = {2e-6};
  host.cluster.levels = {memory};
  host.cluster.devices = host.cluster.devices_per_node = 4;
  CHECK(time(CollectiveOp::all_reduce, {4, 1}, 4'000'000, host).value ==
        doctest::Approx(6 * 2e-6 + 6e6 / 3e9));
  CHECK(time(CollectiveOp::send_receive, {2, 1}, 3'000'000, host).value ==
        doctest::Approx(2e-6 + 1e-3));
}
