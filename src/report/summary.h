// The sentences that answers share: what was asked, whether it fits, how long
// a step takes, what was assumed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/labelled.h"
#include "report/style.h"
#include "search/evaluate.h"
#include "search/request.h"

namespace ztplan {

std::string painted(const Style& style, Fit fit);

/// "gpt3-175b (175B) on 1024 x h100-sxm-80gb (dgx-h100), 2048 tokens x 1536,
/// bf16", wrapped, with a newline.
std::string title(const Asked& asked);
/// "61.2 of 78.0 GiB a GPU, 16.8 GiB (21.5%) free", or what is missing where.
std::string memory_sentence(const Question& question, const Plan& plan);
/// "7.43 s (6.91 to 8.80): compute 71%, bubble 12%, ...": the three largest.
std::string step_sentence(const Plan& plan);
/// "423K tokens/s, 413 a GPU; 512 TFLOPS a GPU, MFU 51.8%".
std::string speed_sentence(const Plan& plan);
/// "--seq 2048 (the model's), --precision bf16, ...".
std::string defaults_sentence(const std::vector<Default>& defaults);
/// A broken rule: its values, the nearest legal ones, whose rule it is.
std::vector<Labelled> misfit_lines(const Misfit& misfit);

/// A line for each warning of a plan, none without one.
void add_warnings(const Question& question, const std::optional<Plan>& plan,
                  std::vector<Labelled>& lines);

/// "4.30 GiB too little device memory".
std::string shortage_text(const Shortage& lack);
/// "device", "host", "nvme".
std::string_view name_of(Tier tier);

/// "61.2 GiB", of a term as tables and sentences name it.
struct TermBytes {
  std::string name;
  Bytes bytes;
};
/// The terms of a breakdown, largest first, those of no bytes left out.
std::vector<TermBytes> largest_terms(const MemoryBreakdown& memory);

struct TermSeconds {
  TimeTerm term;
  Seconds seconds;
};
std::vector<TermSeconds> largest_terms(const StepTime& time);

}  // namespace ztplan
