// ztplan gpus: the fewest GPUs that hold a model, by kind of card.
#include "base/error.h"
#include "base/quantity_text.h"
#include "cli/ask.h"
#include "cli/command.h"
#include "report/gpus_answer.h"
#include "strategy/field_text.h"

namespace ztplan {
namespace {

constexpr const FlagGroup* kGroups[] = {
    &kBudgetFlags,   &kModelFlags, &kMachineFlags, &kTrainingFlags,
    &kStrategyFlags, &kLimitFlags, &kOutputFlags};

Exit exit_of(const GpusAnswer& answer) {
  bool legal = false;
  for (const GpuAnswer& card : answer.cards) {
    if (card.fewest) return Exit::yes;
    legal = legal || !card.illegal;
  }
  return legal ? Exit::nothing_fits : Exit::illegal;
}

Exit run_gpus(const Flags& flags, const Console& console) {
  GpusAnswer answer;
  if (!flags.tokens.empty())
    answer.tokens = parse_tokens("--tokens", flags.tokens);
  if (!flags.price.empty()) answer.price = parse_price(flags.price);
  const std::string strategy = meant_by(engine_named(flags), flags.strategy);
  for (const std::string_view card : split(flags.gpu, ',')) {
    Request request = request_of(flags);
    request.machine.gpu = card;
    answer.cards.push_back(fewest_gpus(request, strategy));
  }
  print(render_gpus(answer, console.showing()));
  return exit_of(answer);
}

}  // namespace

const Command kGpus{
    "gpus",
    "The fewest GPUs that hold a model, with days and cost.",
    "--model M --gpu CARD,CARD [flags]",
    {"ztplan gpus --model llama3-70b --gpu a100-80g,h100",
     "ztplan gpus --model llama3-70b --gpu h100 --tokens 1T --price 2.5",
     "ztplan gpus --model 7b --gpu 4090 --engine deepspeed --strategy zero=3"},
    kGroups,
    0,
    run_gpus};

}  // namespace ztplan
