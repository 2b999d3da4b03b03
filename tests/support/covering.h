// Combinations of values in which every pair of values of two dimensions that
// can stand together does: most faults need no more than two (Kuhn, Wallace and
// Gallo, IEEE TSE 30(6), 2004).
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace ztplan {

struct Dimension {
  std::string name;
  std::vector<std::string> values;
};

/// The value of each dimension, by its place.
using Combination = std::vector<std::size_t>;
using Legal = std::function<bool(const Combination&)>;

/// All legal combinations, in a fixed order.
std::vector<Combination> legal_product(const std::vector<Dimension>& dimensions,
                                       const Legal& legal);

/// Out of `legal`: greedily those that add most pairs, until all pairs of
/// `legal` are there, then any until they are `least`. The same each time.
std::vector<Combination> cover_pairs(const std::vector<Dimension>& dimensions,
                                     const std::vector<Combination>& legal,
                                     std::size_t least);

/// Pairs of values of two dimensions in any of `combinations`.
std::size_t count_pairs(const std::vector<Dimension>& dimensions,
                        const std::vector<Combination>& combinations);

}  // namespace ztplan
