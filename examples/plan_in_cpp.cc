// The library in thirty lines: ask for a plan, walk its memory and time.
#include <fmt/format.h>

#include "search/rank.h"
#include "search/request.h"

int main() {
  ztplan::Request request;
  request.model = "llama2-7b";
  request.cluster = "dgx-a100-80";
  request.gpus = 8;
  request.sequence = 2048;
  request.global_batch = 64;
  request.top = 1;
  const ztplan::Asked asked = ztplan::ask(request);

  const ztplan::Ranking ranking = ztplan::rank(asked.question, {});
  if (ranking.plans.empty()) return 3;
  const ztplan::Plan& plan = ranking.plans.front();
  fmt::print("{}\n", ztplan::to_text(plan.strategy));
  fmt::print("peak {:.1f} GiB of {:.1f}\n", ztplan::gib(plan.memory.peak()),
             ztplan::gib(plan.capacity));
  for (int i = 0; i < ztplan::kTimeTerms; ++i) {
    const auto term = static_cast<ztplan::TimeTerm>(i);
    if (plan.time[term].value > 0)
      fmt::print("{:<14}{:.4f} s\n", ztplan::to_text(term),
                 plan.time[term].value);
  }
  fmt::print("{:<14}{:.4f} s\n", "step", plan.time.total().value);
  return 0;
}
