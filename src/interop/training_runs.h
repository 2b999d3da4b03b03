// Tables of measured training runs (the columns of training_runs.csv): each
// row becomes a question and a strategy, is predicted, and compared.
//
// Columns: id, source, model, layers, hidden, heads, kv_heads, ffn, vocab, seq,
// gpu, gpus, gpus_per_node, tp, pp, vpp, dp, cp, ep, sp, zero_stage, fsdp,
// offload, micro_batch, global_batch, recompute, precision, attention,
// measured_step_s, measured_tokens_per_s_per_gpu, measured_peak_mem_gb, notes.
// An empty or absent one takes the model's or the engine's default.
#pragma once

#include <functional>
#include <vector>

#include "base/csv.h"
#include "search/question.h"
#include "search/validation.h"

namespace ztplan {

/// A row that can be predicted.
struct TrainingRun {
  Question question;  // engines: the row's own first
  Strategy strategy;
  std::optional<Seconds> step;
  std::optional<Bytes> peak;
  Meter meter = Meter::reserved;  // that showed `peak`
  bool names_meter = false;       // else it is taken for reserved
  bool last_stage = false;        // `peak` is of the last stage, not the most
  bool ran_out = false;           // of memory: neither was measured
  bool states_layout = true;      // its micro-batch too
  std::string variant;  // its numbers by name; of several releases, which
};

/// Throws `Error` naming the columns that are missing: model, gpu, gpus and
/// one that was measured.
void check_columns(const CsvTable& table);

/// Throws `Skip` (run_cells.h) when the row cannot be predicted.
TrainingRun read_run(const CsvRow& row, const std::vector<ModelSpec>& known);

/// Predicts every row it can; the others say why not.
std::vector<RunResult> predict_runs(
    const CsvTable& table, const std::function<void(std::int64_t)>& progress);

}  // namespace ztplan
