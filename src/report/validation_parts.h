// What a validation says beside its errors: the order of layouts, what fits,
// one factor for each cluster, and the inputs that errors go with.
#pragma once

#include <vector>

#include "base/json_writer.h"
#include "base/table.h"
#include "report/labelled.h"
#include "search/validation.h"

namespace ztplan {

/// "+12.3%".
std::string signed_share(double share);

/// A row a source whose runs can be ranked, then all; empty without any.
Table ranking_table(const std::vector<RunResult>& runs);
/// A line on rows that ran out of memory and rows that ran; none without any.
std::vector<Labelled> fit_lines(const std::vector<RunResult>& runs);
/// "ranking" and "fits".
void write_order(JsonWriter& json, const std::vector<RunResult>& runs);

/// Before and after one factor, a row a framework on a cluster, then all.
Table factor_table(const std::vector<RunResult>& runs);
void write_factors(JsonWriter& json, const std::vector<RunResult>& runs);

/// A row a value of an input.
Table attribution_table(const std::vector<RunResult>& runs);
void write_attribution(JsonWriter& json, const std::vector<RunResult>& runs);

}  // namespace ztplan
