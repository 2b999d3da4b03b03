#include "exec/thread_communicator.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "exec/cpu_device.h"

using namespace ztplan;

namespace {

constexpr std::chrono::milliseconds kPatience{20'000};

/// Runs `work(rank, communicator)` on every rank; says what each threw.
std::vector<std::string> on_ranks(
    int ranks, std::chrono::milliseconds timeout,
    const std::function<void(int, Communicator&, Device&)>& work) {
  ThreadWorld world(ranks, timeout);
  std::vector<std::string> failures(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      const auto device = make_cpu_device(CpuLanes::immediate, Bytes{1 << 20});
      const auto communicator = world.join(rank, *device);
      try {
        work(rank, *communicator, *device);
      } catch (const Error& error) {
        failures[static_cast<std::size_t>(rank)] = error.what();
        communicator->abort(error.what());
      }
    });
  for (std::thread& thread : threads) thread.join();
  return failures;
}

Array array_of(std::vector<float>& values) {
  return {reinterpret_cast<std::byte*>(values.data()),
          static_cast<std::int64_t>(values.size()), Precision::fp32};
}

/// Values whose sum depends on the order they are added in.
float value_of(int rank, std::size_t i) {
  return (rank % 2 == 0 ? 1e8F : 1.0F) / static_cast<float>(i + 1);
}

std::vector<float> values_of(int rank, std::size_t size) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = value_of(rank, i);
  return values;
}

float sum_at(int ranks, std::size_t i) {
  float sum = value_of(0, i);
  for (int rank = 1; rank < ranks; ++rank) sum += value_of(rank, i);
  return sum;
}

bool all_quiet(const std::vector<std::string>& failures) {
  return std::ranges::all_of(failures,
                             [](const auto& text) { return text.empty(); });
}

}  // namespace

TEST_CASE("threads sum in the order of ranks, whatever the cut") {
  for (const int ranks : {1, 2, 3, 5, 8})
    for (const std::size_t each : {0UL, 1UL, 7UL, 1000UL}) {
      const std::size_t size = each * static_cast<std::size_t>(ranks);
      const auto failures =
          on_ranks(ranks, kPatience, [&](int rank, Communicator& all, Device&) {
            std::vector<float> reduced = values_of(rank, size);
            all.all_reduce(Lane::compute, array_of(reduced), Reduction::sum);
            std::vector<float> scattered = values_of(rank, size);
            const Array whole = array_of(scattered);
            const Array own =
                slice(whole, rank * static_cast<std::int64_t>(each),
                      static_cast<std::int64_t>(each));
            all.reduce_scatter(Lane::compute, whole, own);
            all.all_gather(Lane::compute, own, whole);
            for (std::size_t i = 0; i < size; ++i) {
              if (reduced[i] != sum_at(ranks, i)) throw Error("all_reduce");
              if (scattered[i] != reduced[i]) throw Error("reduce_scatter");
            }
          });
      CHECK(all_quiet(failures));
    }
}

TEST_CASE("threads exchange, broadcast and take the maximum") {
  const int ranks = 4;
  const auto failures =
      on_ranks(ranks, kPatience, [&](int rank, Communicator& all, Device&) {
        std::vector<float> mine{static_cast<float>(rank)}, before{-1};
        all.exchange(Lane::compute, {{(rank + 1) % ranks, array_of(mine)}},
                     {{(rank + ranks - 1) % ranks, array_of(before)}});
        if (before[0] != static_cast<float>((rank + ranks - 1) % ranks))
          throw Error("exchange");
        std::vector<float> largest{static_cast<float>(rank)};
        all.all_reduce(Lane::compute, array_of(largest), Reduction::maximum);
        if (largest[0] != 3) throw Error("maximum");
        std::vector<float> from_two{static_cast<float>(10 * rank)};
        all.broadcast(Lane::compute, array_of(from_two), 2);
        if (from_two[0] != 20) throw Error("broadcast");
        all.barrier(Lane::compute);
      });
  CHECK(all_quiet(failures));
}

TEST_CASE("threads send each as much as they say") {
  // Rank r sends r + 1 numbers to each, all of them r.
  const int ranks = 3;
  const auto failures =
      on_ranks(ranks, kPatience, [&](int rank, Communicator& all, Device&) {
        const std::size_t each = static_cast<std::size_t>(rank) + 1;
        std::vector<float> out(each * ranks, static_cast<float>(rank));
        std::vector<float> in(6);
        all.all_to_all(Lane::compute, array_of(out),
                       {rank + 1, rank + 1, rank + 1}, array_of(in), {1, 2, 3});
        if (in != std::vector<float>{0, 1, 1, 2, 2, 2})
          throw Error("all_to_all");
      });
  CHECK(all_quiet(failures));
}

TEST_CASE("threads split into rows and columns of a grid") {
  const auto failures =
      on_ranks(6, kPatience, [](int rank, Communicator& all, Device&) {
        const auto row = all.split(rank / 3, rank);
        const auto column = all.split(rank % 3, -rank);
        if (row->size() != 3 || row->rank() != rank % 3) throw Error("row");
        if (column->size() != 2 || column->rank() != 1 - rank / 3)
          throw Error("column");
        std::vector<float> value{static_cast<float>(rank)};
        row->all_reduce(Lane::compute, array_of(value), Reduction::sum);
        if (value[0] != (rank < 3 ? 3.0F : 12.0F)) throw Error("row sum");
      });
  CHECK(all_quiet(failures));
}

TEST_CASE("a rank that throws wakes those that wait for it") {
  const auto failures =
      on_ranks(4, kPatience, [](int rank, Communicator& all, Device&) {
        if (rank == 2) throw Error("disk full");
        all.barrier(Lane::compute);
      });
  for (const std::string& failure : failures) CHECK(failure == "disk full");
}

TEST_CASE("a rank that never comes is named, and in which call") {
  const auto failures =
      on_ranks(3, std::chrono::milliseconds(100),
               [](int rank, Communicator& all, Device&) {
                 std::vector<float> value{1};
                 if (rank == 1) return;
                 all.all_reduce(Lane::compute, array_of(value), Reduction::sum);
               });
  CHECK(failures[1].empty());
  CHECK(failures[0] ==
        "communicator of ranks 0-2, call 0, all_reduce of 1 fp32: rank 1 did "
        "not come within 0.1 s");
  CHECK(failures[2] == failures[0]);
}

TEST_CASE("ranks that ask for different things are told so") {
  const auto failures =
      on_ranks(2, kPatience, [](int rank, Communicator& all, Device&) {
        std::vector<float> values(rank == 0 ? 4 : 5);
        all.all_reduce(Lane::compute, array_of(values), Reduction::sum);
      });
  for (const std::string& failure : failures)
    CHECK(failure ==
          "communicator of ranks 0-1, call 0: rank 0 asks for all_reduce of 4 "
          "fp32 where rank 1 asks for all_reduce of 5 fp32");
}

TEST_CASE("a message of another size than awaited is named") {
  const auto failures =
      on_ranks(2, kPatience, [](int rank, Communicator& all, Device&) {
        std::vector<float> values(rank == 0 ? 4 : 5);
        if (rank == 0) all.exchange(Lane::compute, {{1, array_of(values)}}, {});
        if (rank == 1) all.exchange(Lane::compute, {}, {{0, array_of(values)}});
        all.barrier(Lane::compute);
      });
  for (const std::string& failure : failures)
    CHECK(failure ==
          "communicator of ranks 0-1: rank 1 waits for message 0 of 5 fp32 "
          "from rank 0, which sent 4 fp32");
}

TEST_CASE("counts that do not fit one another are named") {
  const auto failures =
      on_ranks(2, kPatience, [](int, Communicator& all, Device&) {
        std::vector<float> out(3), in(4);
        all.all_to_all(Lane::compute, array_of(out), {1, 2}, array_of(in),
                       {1, 2});
      });
  for (const std::string& failure : failures)
    CHECK(failure ==
          "communicator of ranks 0-1, call 0, all_to_all of fp32: rank 0 sends "
          "2 to rank 1, which expects 1");
}

TEST_CASE("a call that cannot be right ends the call of all") {
  const auto failures =
      on_ranks(3, kPatience, [](int rank, Communicator& all, Device&) {
        std::vector<float> shard(2), whole(rank == 1 ? 5 : 6);
        all.all_gather(Lane::compute, array_of(shard), array_of(whole));
      });
  for (const std::string& failure : failures)
    CHECK(failure == "all_gather: 3 shards of 2 elements are not 5");
}

TEST_CASE("threads round a sum once, in 16 bits too") {
  // 256 + 1 + 1: in bf16, of 8 bits, each 1 alone would be lost.
  const std::uint16_t terms[] = {0x4380, 0x3f80, 0x3f80};
  const auto failures =
      on_ranks(3, kPatience, [&](int rank, Communicator& all, Device&) {
        std::uint16_t value = terms[rank];
        all.all_reduce(
            Lane::compute,
            {reinterpret_cast<std::byte*>(&value), 1, Precision::bf16},
            Reduction::sum);
        if (value != 0x4381) throw Error("258 in bf16");
      });
  CHECK(all_quiet(failures));
}

TEST_CASE("calls on deferred lanes match by the order they were made in") {
  ThreadWorld world(4, kPatience);
  run_ranks(world, [&](int rank) {
    const auto device = make_cpu_device(CpuLanes::deferred, Bytes{1 << 20});
    const auto all = world.join(rank, *device);
    const auto pair = all->split(rank / 2, rank);
    std::vector<float> sums(64, 1), halves(64, 1), first{0}, second{0};
    std::vector<float> one{1}, two{2};
    for (std::int64_t i = 0; i < 64; ++i) {
      const Lane lane = (i + rank) % 2 == 0 ? Lane::compute : Lane::data;
      all->all_reduce(lane, slice(array_of(sums), i, 1), Reduction::sum);
      pair->all_reduce(Lane::host, slice(array_of(halves), i, 1),
                       Reduction::sum);
    }
    const int next = (rank + 1) % 4, before = (rank + 3) % 4;
    all->exchange(Lane::pipeline, {}, {{before, array_of(first)}});
    all->exchange(Lane::nvme, {{next, array_of(one)}}, {});
    all->exchange(Lane::nvme, {{next, array_of(two)}},
                  {{before, array_of(second)}});
    device->synchronize();
    if (sums != std::vector<float>(64, 4)) throw Error("sums");
    if (halves != std::vector<float>(64, 2)) throw Error("halves");
    if (first[0] != 1 || second[0] != 2) throw Error("messages");
  });
}

TEST_CASE("an abort from outside ends every communicator of the world") {
  ThreadWorld world(3, kPatience);
  std::atomic<int> failed{0};
  std::thread outside;
  run_ranks(world, [&](int rank) {
    const auto device = make_cpu_device(CpuLanes::deferred, Bytes{1 << 20});
    const auto all = world.join(rank, *device);
    const auto alone = all->split(rank, 0);
    all->barrier(Lane::compute);
    device->synchronize();
    if (rank == 0) outside = std::thread([&] { world.abort("a signal"); });
    std::vector<float> value{0};
    try {
      if (rank == 1) all->barrier(Lane::compute);
      if (rank == 2) all->exchange(Lane::pipeline, {}, {{0, array_of(value)}});
      // NOLINTNEXTLINE(bugprone-infinite-loop): until it throws
      while (rank == 0) alone->barrier(Lane::compute);
      device->synchronize();
    } catch (const Error& error) {
      if (std::string(error.what()) == "a signal") ++failed;
    }
  });
  outside.join();
  CHECK(failed == 3);
}

TEST_CASE("what the first failed rank threw is thrown") {
  ThreadWorld world(3, kPatience);
  const auto work = [&](int rank) {
    const auto device = make_cpu_device(CpuLanes::immediate, Bytes{1 << 20});
    if (rank == 1) throw Bug("a promise");
    world.join(rank, *device)->barrier(Lane::compute);
  };
  CHECK_THROWS_WITH_AS(run_ranks(world, work), "a promise", Bug);
}
