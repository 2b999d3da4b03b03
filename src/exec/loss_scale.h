// The dynamic loss scale of fp16: halved when gradients overflow, doubled after
// a long run of steps without. Source: Micikevicius et al., arXiv 1710.03740,
// section 3.2; the numbers are torch.amp.GradScaler's.
#pragma once

#include "strategy/strategy.h"

namespace ztplan {

class LossScale {
 public:
  explicit LossScale(Precision precision)
      : is_dynamic_(precision == Precision::fp16),
        scale_(is_dynamic_ ? kFirst : 1) {}

  float value() const { return scale_; }
  void set(float scale) { scale_ = scale; }
  /// Whether a step whose gradients were not finite may be tried again with a
  /// smaller scale.
  bool can_shrink() const { return is_dynamic_ && scale_ > kLeast; }
  void after_step(bool skipped) {
    if (!is_dynamic_) return;
    good_ = skipped ? 0 : good_ + 1;
    if (skipped) scale_ /= 2;
    if (good_ < kGrowAfter) return;
    scale_ *= 2;
    good_ = 0;
  }

 private:
  static constexpr float kFirst = 65536, kLeast = 1;
  static constexpr int kGrowAfter = 2000;
  bool is_dynamic_;
  float scale_;
  int good_ = 0;
};

}  // namespace ztplan
