// What a device does for an executor: memory that is counted, lanes on which
// work runs in order, and events between lanes. One of the two interfaces at
// the executor's edge; the other is exec/communicator.h.
#pragma once

#include <array>
#include <functional>

#include "calibrate/kernels/kernel.h"
#include "step/step_graph.h"
#include "strategy/ledger.h"

namespace ztplan {

/// Bytes in use by term, and as they were when their sum was largest.
struct MemoryUse {
  std::array<Bytes, kTerms> now{}, at_peak{};
  Bytes total, peak;
};

/// A moment on a lane, to be waited for by others.
using EventId = std::int64_t;

class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  /// `bytes` of `tier` (device or host), aligned to 64 bytes at least and
  /// counted to the byte under `term`. Throws `Error` with what is in use when
  /// there is no more.
  virtual std::byte* allocate(Tier tier, Term term, Bytes bytes) = 0;
  /// Given back as of what is enqueued on the compute lane so far.
  virtual void release(std::byte* data) = 0;
  virtual MemoryUse use(Tier tier) const = 0;

  virtual void launch(Lane lane, const Kernel& kernel) = 0;
  /// Between tiers or within one.
  virtual void copy(Lane lane, std::byte* to, const std::byte* from,
                    Bytes bytes) = 0;
  /// Work of the host in the order of `lane`: what communicators and files do.
  virtual void enqueue(Lane lane, std::function<void()> work) = 0;

  /// All that `lane` was given so far.
  virtual EventId record(Lane lane) = 0;
  /// What `lane` is given from now on runs after `event`.
  virtual void wait(Lane lane, EventId event) = 0;
  /// Returns when all lanes are done. Throws what the first failed work threw.
  virtual void synchronize() = 0;
};

}  // namespace ztplan
