// Tables of measured matrix products (source, gpu, dtype, m, n, k, tflops) and
// collectives (source, gpu, gpus, nodes, interconnect, collective, size_bytes,
// algbw_GBps, busbw_GBps): each row becomes one work, is priced, and compared.
#pragma once

#include <vector>

#include "base/csv.h"
#include "search/validation.h"

namespace ztplan {

/// Whether a table holds such rows, by its columns.
bool holds_products(const CsvTable& table);
bool holds_collectives(const CsvTable& table);

/// Prices every row it can with the functions and constants that price a step;
/// the others say why not. A result's source is the row's with its GPU and its
/// dtype or collective; `strategy` says what was run.
std::vector<RunResult> predict_products(const CsvTable& table);
std::vector<RunResult> predict_collectives(const CsvTable& table);

}  // namespace ztplan
