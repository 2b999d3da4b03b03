#include "exec/thread_communicator.h"

#include <doctest/doctest.h>

#include <algorithm>
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
std::vector<float> values_of(int rank, std::size_t size) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i)
    values[i] = (rank % 2 == 0 ? 1e8F : 1.0F) / static_cast<float>(i + 1);
  return values;
}

float sum_at(int ranks, std::size_t i) {
  float sum = values_of(0, i + 1)[i];
  for (int rank = 1; rank < ranks; ++rank) sum += values_of(rank, i + 1)[i];
  return sum;
}

bool all_quiet(const std::vector<std::string>& failures) {
  return std::ranges::all_of(failures,
                             [](const auto& text) { return text.empty(); });
}

}  // namespace

TEST_CASE("threads sum in the order of ranks, whatever the cut") {
  for (const int ranks : {1, 2, 3, 5, 8})
    for (const std::size_t each : {0, 1, 7, 1000}) {
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
        const auto each = static_cast<std::size_t>(rank + 1);
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
        if (value[0] != (rank < 3 ? 3 : 12)) throw Error("row sum");
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
  CHECK(failures[0].find("all_reduce of 1 fp32 for rank 1") !=
        std::string::npos);
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
          "rank 1 asks for all_reduce of 5 fp32 where rank 0 asks for "
          "all_reduce of 4 fp32");
}
