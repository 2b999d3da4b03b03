#include "exec/drive_file.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "base/error.h"
#include "exec/cpu_device.h"
#include "exec/optimizer_states.h"
#include "support/temporary_directory.h"

using namespace ztplan;

namespace {

/// Aligned memory of `size` bytes that all are `value`.
class Page {
 public:
  Page(std::size_t size, int value)
      : data_(static_cast<std::byte*>(std::aligned_alloc(4096, size)),
              std::free),
        size_(size) {
    for (std::byte& byte : bytes()) byte = static_cast<std::byte>(value);
  }
  std::span<std::byte> bytes() const { return {data_.get(), size_}; }

 private:
  std::unique_ptr<std::byte, decltype(&std::free)> data_;
  std::size_t size_;
};

}  // namespace

TEST_CASE("a drive file gives back what was written, wherever") {
  TemporaryDirectory here;
  DriveFile file(here.path(), 16'384);
  file.write(4096, Page(8192, 7).bytes());
  file.write(8192, Page(4096, 9).bytes());
  const Page found(8192, 0);
  file.read(4096, found.bytes());
  CHECK(found.bytes()[0] == std::byte{7});
  CHECK(found.bytes()[4096] == std::byte{9});
}

TEST_CASE("a drive file tells what was never written") {
  TemporaryDirectory here;
  DriveFile file(here.path(), 8192);
  const Page page(4096, 0);
  CHECK_THROWS_AS(file.read(4096, page.bytes()), Error);
}

TEST_CASE("a drive file needs a folder") {
  CHECK_THROWS_AS(DriveFile("/no/such/folder", 4096), Error);
}

TEST_CASE("states on a drive are those that were written") {
  TemporaryDirectory here;
  const auto device = make_cpu_device(CpuLanes::immediate, Bytes{1 << 20});
  constexpr std::int64_t kSize = 20'000;
  OptimizerStates states(*device, OffloadTier::nvme, kSize, true, here.path());
  std::vector<float> values(5000);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i);
  states.write(StateKind::first_moment, 3333, values);
  std::vector<float> found(kSize);
  states.read(StateKind::first_moment, 0, found);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const bool written = 3333 <= i && i < 8333;
    REQUIRE(found[i] == (written ? static_cast<float>(i - 3333) : 0.0F));
  }
  // A slice that is loaded, changed and stored comes back changed.
  states.load(1);
  const StateSlice slice = states.slice(1);
  reinterpret_cast<float*>(slice[StateKind::master].data)[5] = 42;
  states.store(1);
  states.read(StateKind::master, slice.from, std::span(found).first(6));
  CHECK(found[5] == 42);
}
