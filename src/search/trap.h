// One known trap of an engine, and what its conditions share. The rows are in
// traps_ENGINE.cc, one a trap; the source of a row is the thread that reports
// it. What an engine refuses outright is a rule of src/strategy/engines, not a
// trap.
#pragma once

#include <span>

#include "search/finding.h"
#include "search/question.h"

namespace ztplan {

struct Trap {
  Severity severity;
  const char* rule;
  bool (*meets)(const Question& question, const Plan& plan);
  const char* detail;
  const char* remedy;
  const char* source;  // "owner/repository#number"
};

std::span<const Trap> deepspeed_traps();
std::span<const Trap> fsdp_traps();
std::span<const Trap> megatron_traps();
std::span<const Trap> colossalai_traps();

/// Whether any layer has experts, and whether any has none.
bool routes(const ModelSpec& model);
bool has_dense_layers(const ModelSpec& model);
/// Whether any layer attends within a window.
bool slides(const ModelSpec& model);
bool spans_nodes(const Question& question);
/// Whether gradients of several micro-batches are added up without a pipeline.
bool accumulates(const Question& question, const Strategy& strategy);
/// Whether a stage, or a chunk of one, holds no layer.
bool has_empty_stage(const Strategy& strategy);

}  // namespace ztplan
