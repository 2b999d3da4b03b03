#include "support/covering.h"

#include <algorithm>
#include <random>

namespace ztplan {
namespace {

/// Which pairs were seen: a bit for each two values of two dimensions.
class Pairs {
 public:
  explicit Pairs(const std::vector<Dimension>& dimensions) {
    for (const Dimension& dimension : dimensions) {
      first_.push_back(values_);
      values_ += dimension.values.size();
    }
    seen_.resize(values_ * values_);
  }

  /// Pairs of `combination` not seen before.
  std::size_t fresh(const Combination& combination) const {
    std::size_t count = 0;
    each(combination, [&](std::size_t at) { count += seen_[at] ? 0 : 1; });
    return count;
  }
  void add(const Combination& combination) {
    each(combination, [&](std::size_t at) {
      count_ += seen_[at] ? 0 : 1;
      seen_[at] = true;
    });
  }
  std::size_t count() const { return count_; }

 private:
  template <class Visit>
  void each(const Combination& combination, const Visit& visit) const {
    for (std::size_t i = 0; i < combination.size(); ++i)
      for (std::size_t j = i + 1; j < combination.size(); ++j)
        visit((first_[i] + combination[i]) * values_ + first_[j] +
              combination[j]);
  }

  std::vector<std::size_t> first_;
  std::size_t values_ = 0, count_ = 0;
  std::vector<bool> seen_;
};

}  // namespace

std::vector<Combination> legal_product(const std::vector<Dimension>& dimensions,
                                       const Legal& legal) {
  std::vector<Combination> found;
  Combination at(dimensions.size(), 0);
  for (;;) {
    if (legal(at)) found.push_back(at);
    std::size_t i = 0;
    while (i < at.size() && ++at[i] == dimensions[i].values.size()) at[i++] = 0;
    if (i == at.size()) return found;
  }
}

std::vector<Combination> cover_pairs(const std::vector<Dimension>& dimensions,
                                     const std::vector<Combination>& legal,
                                     std::size_t least) {
  const std::size_t all = count_pairs(dimensions, legal);
  Pairs pairs(dimensions);
  std::vector<Combination> chosen;
  std::mt19937 random(1);
  while (pairs.count() < all || chosen.size() < std::min(least, legal.size())) {
    // Few of many while pairs are easy to find, all of them for the last.
    constexpr std::size_t kTried = 500;
    const Combination* best = nullptr;
    std::size_t most = 0;
    for (std::size_t i = 0; i < kTried; ++i) {
      const Combination& one = legal[random() % legal.size()];
      const std::size_t fresh = pairs.fresh(one);
      if (best == nullptr || fresh > most) best = &one, most = fresh;
    }
    if (most == 0 && pairs.count() < all)
      best = &*std::ranges::find_if(
          legal, [&](const Combination& one) { return pairs.fresh(one) > 0; });
    pairs.add(*best);
    chosen.push_back(*best);
  }
  return chosen;
}

std::size_t count_pairs(const std::vector<Dimension>& dimensions,
                        const std::vector<Combination>& combinations) {
  Pairs pairs(dimensions);
  for (const Combination& combination : combinations) pairs.add(combination);
  return pairs.count();
}

}  // namespace ztplan
