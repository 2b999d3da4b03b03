// Numbers as an answer shows them: three digits and a unit. Exact values go to
// JSON and CSV; quantities with a unit of their own are base/quantity_text's.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.h"

namespace ztplan {

/// Three digits: "0.123", "1.23", "12.3", "123", "1230".
std::string three_digits(double value);
/// "175B", "7.24B", "423K", "413": decimal; whole numbers below 1000 as they
/// are.
std::string count_text(double count);
/// "51.8%".
std::string share_text(double share);
/// Binary gigabytes without their unit, one decimal: "61.2".
std::string gib_text(Bytes bytes);
/// "174,604,259,328".
std::string grouped(std::int64_t value);

}  // namespace ztplan
