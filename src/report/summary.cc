#include "report/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/quantity_text.h"
#include "report/number_text.h"
#include "search/warnings.h"
#include "strategy/ledger.h"

namespace ztplan {
namespace {

constexpr std::size_t kTermsShown = 3;

std::string whole_percent(double share) {
  constexpr double kPercent = 100;
  return fmt::format("{:.0f}%", share * kPercent);
}

// Reasons that go without saying.
bool is_plain(std::string_view reason) {
  return reason == "the default" || reason == "the model's";
}

}  // namespace

std::string painted(const Style& style, Fit fit) {
  const Paint color = fit == Fit::fits    ? Paint::good
                      : fit == Fit::tight ? Paint::warning
                                          : Paint::bad;
  return paint(style, color, to_text(fit));
}

std::string title(const Asked& asked) {
  const Question& q = asked.question;
  return wrapped(fmt::format(
      "{} ({}) on {} x {} ({}), {} tokens x {}, {}", q.model.name,
      count_text(static_cast<double>(parameters(q.model))), q.cluster.devices,
      q.cluster.device.id, q.cluster.name, q.workload.sequence,
      q.workload.global_batch, to_text(q.workload.precision)));
}

std::string memory_sentence(const Question& question, const Plan& plan) {
  const std::optional<Shortage> lack = shortage(question, plan.memory);
  const std::string use =
      fmt::format("{} of {} GiB a GPU", gib_text(plan.memory.peak()),
                  gib_text(plan.capacity));
  const Bytes free = plan.capacity - plan.memory.peak();
  if (free.value < 0) {
    return fmt::format("{}: {} GiB too much", use, gib_text(Bytes{} - free));
  }
  if (lack) return fmt::format("{}, but {}", use, shortage_text(*lack));
  return fmt::format("{}, {} GiB ({}) free", use, gib_text(free),
                     share_text(free / plan.capacity));
}

std::string step_sentence(const Plan& plan) {
  std::string shares;
  const std::vector<TermSeconds> terms = largest_terms(plan.time);
  for (std::size_t i = 0; i < std::min(kTermsShown, terms.size()); ++i) {
    shares += fmt::format("{}{} {}", i == 0 ? "" : ", ", to_text(terms[i].term),
                          whole_percent(terms[i].seconds / plan.time.total()));
  }
  return fmt::format(
      "{} s ({} to {}): {}", three_digits(plan.time.total().value),
      three_digits(plan.low.value), three_digits(plan.high.value), shares);
}

std::string speed_sentence(const Plan& plan) {
  constexpr double kTera = 1e12;
  const Throughput& t = plan.throughput;
  return fmt::format(
      "{} tokens/s, {} a GPU; {} TFLOPS a GPU, MFU {}",
      count_text(t.tokens_per_second), count_text(t.tokens_per_second_per_gpu),
      three_digits(t.model_per_gpu.value / kTera), share_text(t.mfu));
}

std::string defaults_sentence(const std::vector<Default>& defaults) {
  std::string out;
  for (const Default& taken : defaults) {
    out += fmt::format("{}{} {}", out.empty() ? "" : "; ", taken.option,
                       taken.value);
    if (!is_plain(taken.reason)) out += fmt::format(" ({})", taken.reason);
  }
  return out;
}

std::vector<Labelled> misfit_lines(const Misfit& misfit) {
  std::vector<Labelled> lines = {
      {"rule", fmt::format("{}: {}", misfit.rule, misfit.detail)}};
  if (!misfit.nearest.empty()) {
    lines.push_back({"", fmt::format("nearest: {}", misfit.nearest)});
  }
  lines.push_back(
      {"", fmt::format("of {} engine ({})",
                       misfit.engine == "any" ? "any" : "the " + misfit.engine,
                       misfit.source)});
  return lines;
}

void add_warnings(const Question& question, const std::optional<Plan>& plan,
                  std::vector<Labelled>& lines) {
  if (!plan) return;
  for (const Finding& finding : warnings(question, *plan))
    lines.push_back({"warning", fmt::format("{}; {} ({})", finding.detail,
                                            finding.remedy, finding.source)});
}

std::string shortage_text(const Shortage& lack) {
  return fmt::format("{} too little {} memory", text(lack.missing),
                     name_of(lack.tier));
}

std::string_view name_of(Tier tier) {
  if (tier == Tier::device) return "device";
  return tier == Tier::host ? "host" : "nvme";
}

std::vector<TermBytes> largest_terms(const MemoryBreakdown& memory) {
  std::vector<TermBytes> terms;
  for (int i = 0; i < kTerms; ++i) {
    const Term term = static_cast<Term>(i);
    if (memory[term].value == 0) continue;
    terms.push_back({std::string(to_text(term)), memory[term]});
  }
  std::ranges::stable_sort(terms, std::ranges::greater{}, &TermBytes::bytes);
  return terms;
}

std::vector<TermSeconds> largest_terms(const StepTime& time) {
  std::vector<TermSeconds> terms;
  for (int i = 0; i < kTimeTerms; ++i) {
    const TimeTerm term = static_cast<TimeTerm>(i);
    if (time[term].value > 0) terms.push_back({term, time[term]});
  }
  std::ranges::stable_sort(terms, std::ranges::greater{},
                           &TermSeconds::seconds);
  return terms;
}

}  // namespace ztplan
