#include "exec/cpu_device.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/quantity_text.h"
#include "exec/lane_threads.h"

namespace ztplan {
namespace {

constexpr std::size_t kAlignment = 4096;  // a page: drives read into it

/// What is in use of one tier.
class Meter {
 public:
  void take(Term term, Bytes bytes) {
    use_.now[static_cast<std::size_t>(term)] += bytes;
    use_.total += bytes;
    if (use_.total <= use_.peak) return;
    use_.peak = use_.total;
    use_.at_peak = use_.now;
  }
  void give(Term term, Bytes bytes) {
    use_.now[static_cast<std::size_t>(term)] -= bytes;
    use_.total -= bytes;
  }
  const MemoryUse& use() const { return use_; }

 private:
  MemoryUse use_;
};

/// Blocks that were given back wait for the next of their size: memory that the
/// system has to hand out anew costs more than what is computed in it. Called
/// from lanes too.
class BlockStore {
 public:
  BlockStore() = default;
  BlockStore(const BlockStore&) = delete;
  BlockStore& operator=(const BlockStore&) = delete;
  ~BlockStore() {
    for (const auto& [size, block] : waiting_) std::free(block);
  }

  std::byte* take(Bytes bytes) {
    const std::size_t size = rounded(bytes);
    std::byte* block = take_waiting(size);
    if (block == nullptr)
      block = static_cast<std::byte*>(std::aligned_alloc(kAlignment, size));
    if (block == nullptr)
      throw Error(fmt::format("the machine has no {} of memory left",
                              exact_text(bytes)));
    std::memset(block, 0xff, size);  // NaN in fp32, fp16 and bf16
    return block;
  }
  void give(std::byte* block, Bytes bytes) {
    const std::lock_guard lock(mutex_);
    waiting_.emplace(rounded(bytes), block);
  }

 private:
  static std::size_t rounded(Bytes bytes) {
    const auto size = static_cast<std::size_t>(bytes.value);
    return (size + kAlignment) / kAlignment * kAlignment;
  }
  std::byte* take_waiting(std::size_t size) {
    const std::lock_guard lock(mutex_);
    const auto at = waiting_.find(size);
    if (at == waiting_.end()) return nullptr;
    std::byte* const block = at->second;
    waiting_.erase(at);
    return block;
  }

  std::mutex mutex_;
  std::multimap<std::size_t, std::byte*> waiting_;
};

class CpuDevice final : public Device {
 public:
  CpuDevice(CpuLanes lanes, Bytes memory) : memory_(memory) {
    if (lanes == CpuLanes::deferred) threads_ = std::make_unique<LaneThreads>();
  }
  ~CpuDevice() override {
    threads_.reset();
    for (const auto& [data, block] : blocks_) std::free(data);
  }

  std::byte* allocate(Tier tier, Term term, Bytes bytes) override {
    Meter& meter = meters_[static_cast<std::size_t>(tier)];
    if (tier == Tier::device && meter.use().total + bytes > memory_)
      throw Error(fmt::format(
          "out of memory on the device: {} for {} beside {} in use of {}",
          exact_text(bytes), to_text(term), exact_text(meter.use().total),
          exact_text(memory_)));
    std::byte* const data = store_.take(bytes);
    meter.take(term, bytes);
    blocks_[data] = {tier, term, bytes};
    return data;
  }

  void release(std::byte* data) override {
    if (data == nullptr) return;
    const auto at = blocks_.find(data);
    require(at != blocks_.end(), "a block is released once");
    const Block block = at->second;
    blocks_.erase(at);
    meters_[static_cast<std::size_t>(block.tier)].give(block.term, block.bytes);
    enqueue(Lane::compute,
            [this, data, bytes = block.bytes] { store_.give(data, bytes); });
  }

  MemoryUse use(Tier tier) const override {
    return meters_[static_cast<std::size_t>(tier)].use();
  }

  void launch(Lane lane, const Kernel& kernel) override {
    if (!threads_) return run_on_cpu(kernel);
    enqueue(lane, [kernel] { run_on_cpu(kernel); });
  }

  void copy(Lane lane, std::byte* to, const std::byte* from,
            Bytes bytes) override {
    if (bytes == Bytes{}) return;
    enqueue(lane, [=] {
      std::memmove(to, from, static_cast<std::size_t>(bytes.value));
    });
  }

  void enqueue(Lane lane, std::function<void()> work) override {
    if (threads_) return threads_->enqueue(lane, std::move(work));
    work();
  }

  EventId record(Lane lane) override {
    return threads_ ? threads_->record(lane) : 0;
  }
  void wait(Lane lane, EventId event) override {
    if (threads_) threads_->wait(lane, event);
  }
  void synchronize() override {
    if (threads_) threads_->synchronize();
  }

 private:
  struct Block {
    Tier tier;
    Term term;
    Bytes bytes;
  };
  Bytes memory_;
  std::array<Meter, 3> meters_;  // by tier
  BlockStore store_;
  std::map<std::byte*, Block> blocks_;
  std::unique_ptr<LaneThreads> threads_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(CpuLanes lanes, Bytes memory) {
  return std::make_unique<CpuDevice>(lanes, memory);
}

}  // namespace ztplan
