#include "exec/cpu_device.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/error.h"

using namespace ztplan;

TEST_CASE("a device counts what is allocated by term, and its peak") {
  const auto device = make_cpu_device(CpuLanes::immediate, Bytes{1000});
  std::byte* const weights =
      device->allocate(Tier::device, Term::parameters, Bytes{600});
  std::byte* const saved =
      device->allocate(Tier::device, Term::activations, Bytes{300});
  device->release(saved);
  const MemoryUse use = device->use(Tier::device);
  CHECK(use.total == Bytes{600});
  CHECK(use.peak == Bytes{900});
  CHECK(use.at_peak[static_cast<std::size_t>(Term::activations)] == Bytes{300});
  CHECK_THROWS_AS(device->allocate(Tier::device, Term::buffers, Bytes{401}),
                  Error);
  CHECK_NOTHROW(device->allocate(Tier::host, Term::buffers, Bytes{4000}));
  device->release(weights);
  CHECK(device->use(Tier::device).total == Bytes{});
}

TEST_CASE("deferred lanes run beside one another and keep events") {
  const auto device = make_cpu_device(CpuLanes::deferred, Bytes{1000});
  std::atomic<int> order{0};
  int compute = 0, data = 0;
  device->enqueue(Lane::compute, [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    compute = ++order;
  });
  device->wait(Lane::data, device->record(Lane::compute));
  device->enqueue(Lane::data, [&] { data = ++order; });
  device->synchronize();
  CHECK(compute == 1);
  CHECK(data == 2);
}

TEST_CASE("a deferred failure drops what follows and is thrown once asked") {
  const auto device = make_cpu_device(CpuLanes::deferred, Bytes{1000});
  bool ran = false;
  device->enqueue(Lane::data, [] { throw Error("no link"); });
  device->wait(Lane::compute, device->record(Lane::data));
  device->enqueue(Lane::compute, [&] { ran = true; });
  CHECK_THROWS_WITH_AS(device->synchronize(), "no link", Error);
  CHECK_FALSE(ran);
}
