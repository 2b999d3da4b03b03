// The one way in which communicators put the numbers of ranks together, so that
// every implementation gives the same bits.
#pragma once

#include <cstdint>
#include <span>

#include "exec/communicator.h"

namespace ztplan {

/// out[i] = from[0][i] + from[1][i] + ..., in that order and in fp32, rounded
/// once to `dtype` (nearest, ties to even); or the maximum, NaN if any is. An
/// element depends on no other, so a buffer may be combined in pieces. Each of
/// `to` gets the result and may be one of `from`. Not of fp8.
void combine(Reduction how, Precision dtype, std::int64_t elements,
             std::span<const std::byte* const> from,
             std::span<std::byte* const> to);

}  // namespace ztplan
