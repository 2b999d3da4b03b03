// What every rank says, brought to the first, by messages of bytes.
#pragma once

#include <string>
#include <vector>

#include "exec/communicator.h"
#include "exec/device.h"

namespace ztplan {

/// Of all ranks in their order, at rank 0; nothing at the others. Collective,
/// on the compute lane; returns when it is done.
std::vector<std::string> gather_texts(Communicator& world, Device& device,
                                      std::string mine);

}  // namespace ztplan
