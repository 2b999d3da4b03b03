// The answer of `check`: what a configuration says, and what becomes of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json_writer.h"
#include "base/table.h"
#include "report/answer.h"
#include "search/finding.h"
#include "search/remedy.h"

namespace ztplan {

/// `asked` and `plan` are absent when no model was given: then only what the
/// file says by itself is judged.
struct CheckAnswer {
  std::string format;  // "deepspeed"; empty for a strategy alone
  const Engine* engine = nullptr;
  Strategy strategy;
  std::vector<Finding> findings;
  std::vector<Misfit> misfits;
  const Asked* asked = nullptr;
  std::optional<Plan> plan;
  std::optional<Shortage> lack;
  std::vector<Remedy> remedies;
  std::vector<std::string> unsaid;

  bool is_illegal() const;
};

std::string render_check(const CheckAnswer& answer, const Showing& showing);

void write_remedies(JsonWriter& json, const std::vector<Remedy>& remedies);
/// "7.20 GiB, 1.30 s a step" of each, with what was changed.
Table remedy_table(const std::vector<Remedy>& remedies);

}  // namespace ztplan
