// Rows of measured runs that train adapters beside frozen weights.
#pragma once

#include "base/csv.h"
#include "strategy/strategy.h"

namespace ztplan {

/// Adapters of a row whose model cell says "(LoRA)" or "(QLoRA)"; none of one
/// that trains all. A rank or a target that its notes leave out is the source's
/// usual one. Throws `Skip` for adapters of other kinds.
Adapters adapters_of_run(const CsvRow& row);

/// What the precision cell says of frozen weights: "nf4 base + bf16".
Quantize quantize_of_run(const CsvRow& row);

}  // namespace ztplan
