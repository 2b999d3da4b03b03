// Random numbers without a state: a function of what they are for. Any shard
// of any tensor, and any place of any epoch, can be drawn anywhere with the
// same bits, whatever the layout of ranks.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "exec/block.h"

namespace ztplan {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

/// Philox 4x32 in 10 rounds: Salmon, Moraes, Dror and Shaw, "Parallel random
/// numbers: as easy as 1, 2, 3", SC 2011, section 3.3.
PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key);

/// FNV-1a of 64 bits: draft-eastlake-fnv.
std::uint64_t hash_name(std::string_view name);

/// What a tensor begins as.
struct NormalTensor {
  std::string name;  // "layers.3.attention.q.weight"
  std::uint64_t seed = 0;
  double deviation = 0;  // standard; the mean is 0
};

/// Elements `first`, `first` + 1, .. of the tensor, row by row. Element i is
/// number i % 4 of the block with key `seed` and counter (i / 4, hash of the
/// name): two pairs of uniforms, made normal by Box and Muller in double, then
/// rounded to float. None lies further out than 6.7 deviations.
void fill_normal(const NormalTensor& tensor, std::int64_t first,
                 std::span<float> out);
/// The block of the tensor as a matrix of `width` columns, row by row.
void fill_normal(const NormalTensor& tensor, const Block& block,
                 std::int64_t width, std::span<float> out);

/// Where `index` stands in the order of `count` things in the given epoch: a
/// permutation, computed place by place. Requires 0 <= index < count.
/// Cycle walking over a Feistel network: Black and Rogaway, "Ciphers with
/// arbitrary finite domains", CT-RSA 2002.
std::int64_t permute(std::int64_t index, std::int64_t count, std::uint64_t seed,
                     std::int64_t epoch);

}  // namespace ztplan
