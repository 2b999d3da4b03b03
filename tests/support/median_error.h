// How far predictions are from what was measured, over many rows.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/units.h"

namespace ztplan {

/// Collects predicted and measured times; tells |predicted / measured - 1|.
class Errors {
 public:
  void add(Seconds predicted, Seconds measured) {
    signed_.push_back(predicted / measured - 1);
  }
  std::size_t count() const { return signed_.size(); }
  double median() const { return median_of(absolute()); }
  double bias() const { return median_of(signed_); }
  double worst() const {
    const std::vector<double> all = absolute();
    return *std::max_element(all.begin(), all.end());
  }

 private:
  std::vector<double> absolute() const {
    std::vector<double> all;
    for (const double error : signed_) all.push_back(std::abs(error));
    return all;
  }
  static double median_of(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values.at(values.size() / 2);
  }
  std::vector<double> signed_;
};

}  // namespace ztplan
