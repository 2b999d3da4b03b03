// What a price is made from: constants of a calibration that err together,
// apart from the others.
#pragma once

#include "spec/calibration.h"

namespace ztplan {

enum class Input {
  products,
  attention,
  passes,
  launches,
  overlap,
  links,
  network,
  host
};
constexpr int kInputs = 8;

/// `calibration` with the constants of `input` at the end of their bands that
/// saves time (`high` shares, `low` times), or at the one that costs it.
enum class End { fast, slow };
Calibration moved(Calibration calibration, Input input, End end);

}  // namespace ztplan
