#include "calibrate/trials.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"

namespace ztplan {
namespace {

constexpr int kWarmups = 2, kLeastRepeats = 10, kMostRepeats = 200;

/// Eight times what a core's second cache holds, and more pages than it has
/// the places of, read from end to end.
class Eviction {
 public:
  Eviction() : bytes_(8 * cache_size()) {}
  void run() {
    constexpr std::size_t kLine = 64;
    for (std::size_t i = 0; i < bytes_.size(); i += kLine) ++bytes_[i];
  }

 private:
  static std::size_t cache_size() {
    constexpr long kUsual = 1 << 20;  // where the system does not say
    const long size = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
    return static_cast<std::size_t>(size > 0 ? size : kUsual);
  }
  std::vector<unsigned char> bytes_;
};

double time_call(const std::function<void()>& call) {
  const double start = clock_seconds();
  call();
  return clock_seconds() - start;
}

}  // namespace

double clock_seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Trials summary_of(std::vector<double> seconds) {
  require(!seconds.empty(), "something was timed");
  std::ranges::sort(seconds);
  const auto at = [&](double share) {
    const double last = static_cast<double>(seconds.size() - 1);
    return Seconds{
        seconds[static_cast<std::size_t>(std::lround(share * last))]};
  };
  constexpr double kLow = 0.1, kMiddle = 0.5, kHigh = 0.9;
  return {at(kLow), at(kMiddle), at(kHigh), static_cast<int>(seconds.size())};
}

Trials time_trials(const std::function<void()>& call, Seconds budget) {
  Eviction eviction;
  for (int i = 0; i < kWarmups; ++i) call();
  std::vector<double> seconds;
  const double end = clock_seconds() + budget.value;
  while (static_cast<int>(seconds.size()) < kLeastRepeats ||
         (clock_seconds() < end &&
          static_cast<int>(seconds.size()) < kMostRepeats)) {
    eviction.run();
    seconds.push_back(time_call(call));
  }
  return summary_of(std::move(seconds));
}

}  // namespace ztplan
