#include "exec/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/error.h"

namespace ztplan {
namespace {

constexpr int kRounds = 10;
// Multipliers and Weyl constants: Salmon et al., section 3.3 and table 2.
constexpr std::uint64_t kMultiplier0 = 0xD2511F53;
constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
constexpr std::uint32_t kWeyl1 = 0xBB67AE85;

constexpr std::int64_t kLanes = 4;  // numbers of a block

std::uint32_t low(std::uint64_t bits) {
  return static_cast<std::uint32_t>(bits);
}
std::uint32_t high(std::uint64_t bits) {
  return static_cast<std::uint32_t>(bits >> 32);
}

/// In (0, 1]: its logarithm is finite.
double uniform(std::uint32_t bits) {
  return (static_cast<double>(bits) + 1) * 0x1p-32;
}

using Normals = std::array<double, kLanes>;

/// Box and Muller 1958: a radius and an angle.
Normals normals(const PhiloxCounter& bits) {
  Normals drawn{};
  for (std::size_t pair = 0; pair < bits.size(); pair += 2) {
    const double radius = std::sqrt(-2 * std::log(uniform(bits[pair])));
    const double angle = 2 * std::numbers::pi * uniform(bits[pair + 1]);
    drawn[pair] = radius * std::cos(angle);
    drawn[pair + 1] = radius * std::sin(angle);
  }
  return drawn;
}

PhiloxKey key_of(std::uint64_t seed) { return {low(seed), high(seed)}; }

/// The words of the Feistel rounds: a name that no tensor has.
constexpr std::string_view kOrder = "order of samples";
constexpr std::uint64_t kFeistelRounds = 8;

/// A permutation of the numbers of 2 * `half_bits` bits.
std::uint64_t scramble(std::uint64_t number, int half_bits, std::uint64_t seed,
                       std::int64_t epoch) {
  static const std::uint64_t order = hash_name(kOrder);
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  std::uint64_t left = number >> half_bits, right = number & mask;
  for (std::uint64_t round = 0; round < kFeistelRounds; ++round) {
    const std::uint64_t tweak =
        order + kFeistelRounds * static_cast<std::uint64_t>(epoch) + round;
    const PhiloxCounter word = philox(
        {low(right), high(right), low(tweak), high(tweak)}, key_of(seed));
    const std::uint64_t next = left ^ (word[0] & mask);
    left = right;
    right = next;
  }
  return (left << half_bits) | right;
}

}  // namespace

PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0];
    const std::uint64_t product1 = kMultiplier1 * counter[2];
    counter = {high(product1) ^ counter[1] ^ key[0], low(product1),
               high(product0) ^ counter[3] ^ key[1], low(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

std::uint64_t hash_name(std::string_view name) {
  constexpr std::uint64_t kBasis = 0xCBF29CE484222325;
  constexpr std::uint64_t kPrime = 0x100000001B3;
  std::uint64_t hash = kBasis;
  for (const char letter : name) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * kPrime;
  }
  return hash;
}

void fill_normal(const NormalTensor& tensor, std::int64_t first,
                 std::span<float> out) {
  const std::uint64_t name = hash_name(tensor.name);
  const auto block_at = [&](std::int64_t element) {
    const auto block = static_cast<std::uint64_t>(element / kLanes);
    return normals(philox({low(block), high(block), low(name), high(name)},
                          key_of(tensor.seed)));
  };
  Normals block = block_at(first);
  for (std::int64_t element = first; float& value : out) {
    if (element % kLanes == 0) block = block_at(element);
    value = static_cast<float>(
        tensor.deviation * block[static_cast<std::size_t>(element % kLanes)]);
    ++element;
  }
}

void fill_normal(const NormalTensor& tensor, const Block& block,
                 std::int64_t width, std::span<float> out) {
  require(std::cmp_equal(out.size(), block.size()), "a block has its size");
  const auto columns = static_cast<std::size_t>(block.columns);
  for (std::int64_t row = 0; row < block.rows; ++row) {
    fill_normal(tensor, (block.row + row) * width + block.column,
                out.subspan(static_cast<std::size_t>(row) * columns, columns));
  }
}

std::int64_t permute(std::int64_t index, std::int64_t count, std::uint64_t seed,
                     std::int64_t epoch) {
  require(index >= 0 && index < count, "a place is one of those in order");
  const auto bits =
      static_cast<int>(std::bit_width(static_cast<std::uint64_t>(count - 1)));
  const int half_bits = std::max(1, (bits + 1) / 2);
  // The range scrambled is at most 4 times the count: few walks are long.
  auto place = static_cast<std::uint64_t>(index);
  do {
    place = scramble(place, half_bits, seed, epoch);
  } while (place >= static_cast<std::uint64_t>(count));
  return static_cast<std::int64_t>(place);
}

}  // namespace ztplan
