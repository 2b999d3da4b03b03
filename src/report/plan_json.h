// One plan as JSON: strategy, memory, time, throughput, traffic. Keys are fixed
// by the contract; bytes are integers, times seconds.
#pragma once

#include <string_view>

#include "base/json_writer.h"
#include "search/finding.h"
#include "search/question.h"

namespace ztplan {

/// Whether a plan keeps within every tier.
bool fits(const Question& question, const Plan& plan);

/// Writes a plan as the next value. `rank` is 1 for the best.
void write_plan(JsonWriter& json, const Question& question, const Plan& plan,
                int rank);

/// The member "traffic": bytes one GPU sends in a step.
void write_traffic(JsonWriter& json, const Traffic& traffic);

/// The next value: {"text", "tp", ...}.
void write_strategy(JsonWriter& json, const Strategy& strategy);

/// The member `key`: an array of findings.
void write_findings(JsonWriter& json, const char* key,
                    const std::vector<Finding>& findings);

/// The member "misfits": an array of broken rules.
void write_misfits(JsonWriter& json, const std::vector<Misfit>& misfits);

/// Members "parameters_bytes" ... "overhead_bytes" of the open object, which
/// add up to the peak; "logits_bytes" is a part of "activations_bytes".
void write_terms(JsonWriter& json, const MemoryBreakdown& memory);

}  // namespace ztplan
