#include "calibrate/rehearsal.h"

#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <string>

#include "base/error.h"
#include "calibrate/calibrate.h"
#include "calibrate/probes.h"
#include "exec/cpu_device.h"
#include "step/demand.h"

using namespace ztplan;

namespace {

constexpr Bytes kMemory{std::int64_t{1} << 30};

std::vector<Work> few_works() {
  AttentionWork attention;
  attention.sequences = 2;
  attention.queries = attention.keys = 16;
  attention.heads = attention.kv_heads = 2;
  attention.qk_size = attention.v_size = 8;
  attention.precision = Precision::fp32;
  return {
      Matmul{8, 16, 32, 2, Precision::fp32},
      attention,
      Stream{Bytes{4096}, PassKind::fixed, Operation::norm, Precision::fp32},
      Transfer{Channel::nvme_write, Bytes{16 * kKiB}},
      HostAdam{1000},
      Collective{CollectiveOp::all_reduce, {2, 1}, Bytes{4096}},
      Collective{CollectiveOp::send_receive, {2, 1}, Bytes{4096}}};
}

MeasuredMachine measure(const std::optional<MeasuredMachine>& before,
                        const std::atomic<bool>& stop, int& reports) {
  CalibrationOptions options;
  options.works = few_works();
  options.budget = {0.001};
  options.folder = "/tmp";
  options.device = "cpu-generic-2core";
  reports = 0;
  return calibrate(options, before, stop, [&](int, int) { ++reports; });
}

}  // namespace

TEST_CASE("every probe of a rank can be rehearsed") {
  for (const Thoroughness how : {Thoroughness::quick, Thoroughness::whole})
    for (const Work& work : probes(how, 4)) {
      if (const auto* stream = std::get_if<Stream>(&work)) {
        if (stream->bytes > Bytes{kMiB}) continue;  // the same, and slow
      } else if (const auto* product = std::get_if<Matmul>(&work)) {
        if (product->m > 32) continue;
      } else if (const auto* attention = std::get_if<AttentionWork>(&work)) {
        if (attention->queries > 32) continue;
      } else {
        continue;
      }
      const auto device = make_cpu_device(CpuLanes::immediate, kMemory);
      const Rehearsal rehearsal(*device, work);
      const Bytes before = device->use(Tier::device).total;
      rehearsal.run();
      CHECK(rehearsal.works() >= 1);
      CHECK(before.value > 0);
      CHECK(device->use(Tier::device).total == before);
    }
}

TEST_CASE("probes of one curve have as many sizes, none of them negative") {
  std::map<std::string, std::size_t> sizes;
  for (const Work& work : probes(Thoroughness::whole, 4)) {
    const Demand demand = demand_of(work);
    const auto [at, added] =
        sizes.try_emplace(demand.probe, demand.sizes.size());
    CHECK(at->second == demand.sizes.size());
    CHECK(demand.sizes.front() >= 1);
    for (const double size : demand.sizes) CHECK(size > 0);
  }
  CHECK(sizes.size() > 60);
}

TEST_CASE("calibrate measures each probe once and goes on from a file") {
  const std::atomic<bool> go{false}, stopped{true};
  int reports = 0;
  const MeasuredMachine whole = measure({}, go, reports);
  CHECK(reports == 7);
  CHECK(whole.complete);
  CHECK(whole.curves.size() == 7);
  CHECK(whole.sharing.front() == 1);
  for (const auto& measured : whole.curves) {
    CAPTURE(measured.first);
    REQUIRE(measured.second.samples.size() == 1);
    CHECK(measured.second.samples[0].repeats >= 10);
    CHECK(measured.second.samples[0].low.value > 0);
  }
  const MeasuredMachine none = measure({}, stopped, reports);
  CHECK_FALSE(none.complete);
  CHECK(none.curves.empty());
  MeasuredMachine more = whole;  // of works that are not asked for now
  more.curves["copy/fp32"] = whole.curves.at("norm/fp32");
  const MeasuredMachine again = measure(more, go, reports);
  CHECK(again.curves.contains("copy/fp32"));
  for (const auto& [probe, curve] : whole.curves)
    CHECK(again.curves.at(probe).samples == curve.samples);
}

TEST_CASE("a calibration is not resumed on another machine") {
  const std::atomic<bool> go{false};
  int reports = 0;
  MeasuredMachine other;
  other.processor = "another";
  CHECK_THROWS_AS(measure(other, go, reports), Error);
}
