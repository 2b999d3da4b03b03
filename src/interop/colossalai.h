// Keyword values of Colossal-AI's Booster plugins, both ways.
#pragma once

#include <cstdint>

#include "interop/format.h"

namespace ztplan {

/// Elements of one in zero_bucket_size_in_m and reduce_bucket_size_in_m.
/// Source: hpcaitech/ColossalAI colossalai/booster/plugin/
/// hybrid_parallel_plugin.py, low_level_zero_plugin.py.
inline constexpr std::int64_t kColossalBucketUnit = 1 << 20;

Emitted emit_colossalai(const Emission& emission);
Configuration read_colossalai(std::string_view path, std::string_view text,
                              const Given& given);

}  // namespace ztplan
