// The network that a table of collectives means by its words.
#pragma once

#include <string>
#include <string_view>

namespace ztplan {

/// "NVLink4 inside, 8x400 Gb/s RoCE per node" -> "8xroce-400", "EFA v2 3200
/// Gb/s per node" -> "32xefa-v2": ports of one node as --network takes them.
/// Empty when neither kind nor rate is said: the usual network.
std::string network_of(std::string_view interconnect);

}  // namespace ztplan
