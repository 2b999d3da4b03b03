// The processor as a device. Immediate: work runs when it is given. Deferred:
// every lane is a thread of its own, as a GPU's streams are, so that a missing
// wait between lanes shows.
#pragma once

#include <memory>

#include "exec/device.h"

namespace ztplan {

enum class CpuLanes { immediate, deferred };

/// A device with `memory` bytes, and a host with as much again as the machine
/// gives. New memory holds no zeros: its bits are NaN in every dtype.
std::unique_ptr<Device> make_cpu_device(CpuLanes lanes, Bytes memory);

}  // namespace ztplan
