// ztplan compare: two plans or strategies, term by term.
#include <fmt/format.h>

#include "base/error.h"
#include "base/quote.h"
#include "cli/one_plan.h"
#include "interop/plan_file.h"
#include "report/compare_answer.h"

namespace ztplan {
namespace {

constexpr const FlagGroup* kGroups[] = {&kVersusFlags, &kModelFlags,
                                        &kMachineFlags, &kTrainingFlags,
                                        &kOutputFlags};

bool is_strategy(const std::string& word) {
  return word.find('=') != std::string::npos && !word.ends_with(".json");
}

/// The flags that `--vs` may change, by the names it uses.
struct Changeable {
  std::string_view key;
  std::string Flags::*field;
};
constexpr Changeable kChangeable[] = {{"model", &Flags::model},
                                      {"gpus", &Flags::gpus},
                                      {"gpu", &Flags::gpu},
                                      {"cluster", &Flags::cluster},
                                      {"nodes", &Flags::nodes},
                                      {"intra", &Flags::intra},
                                      {"network", &Flags::network},
                                      {"p2p", &Flags::p2p},
                                      {"gpus-per-node", &Flags::gpus_per_node},
                                      {"engine", &Flags::engine},
                                      {"seq", &Flags::seq},
                                      {"global-batch", &Flags::global_batch},
                                      {"precision", &Flags::precision},
                                      {"param-dtype", &Flags::param_dtype},
                                      {"grad-dtype", &Flags::grad_dtype},
                                      {"attention", &Flags::attention},
                                      {"optimizer", &Flags::optimizer},
                                      {"loss", &Flags::loss},
                                      {"lora", &Flags::lora},
                                      {"quantize", &Flags::quantize}};

std::vector<std::string> items_of(std::string_view text) {
  std::vector<std::string> items;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(",;"), text.size());
    items.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return items;
}

std::string key_of(const std::string& item) {
  return item.substr(0, item.find('='));
}

/// The items of a strategy without those that `item` replaces, and `item`.
std::string replaced(const std::string& strategy, const std::string& item) {
  std::string text;
  for (const std::string& each : items_of(strategy))
    if (key_of(each) != key_of(item)) text += each + ",";
  return text + item;
}

/// "precision=fp8;param-dtype=fp8", or with commas; what is no flag goes to the
/// strategy.
Flags changed(Flags flags, std::string_view changes) {
  for (const std::string& item : items_of(changes)) {
    const std::size_t equals = item.find('=');
    if (equals == std::string::npos)
      throw Error(fmt::format("--vs: {} is not key=value", quote(item)),
                  "as --vs precision=fp8,intra=pcie4,tp=8");
    const Changeable* found = nullptr;
    for (const Changeable& each : kChangeable)
      if (each.key == key_of(item)) found = &each;
    if (found != nullptr)
      flags.*(found->field) = item.substr(equals + 1);
    else
      flags.strategy = replaced(flags.strategy, item);
  }
  return flags;
}

Compared named(Judged judged, std::string name) {
  return {std::move(name), std::move(judged.asked), std::move(judged.plan)};
}

Compared side(const Flags& flags, const std::string& word) {
  if (!is_strategy(word)) {
    PlanFile file = read_plan_file(word);
    return named(judge(ask(file.request), file.strategy), word);
  }
  Flags own = flags;
  own.strategy = word;
  return named(judge(own), word);
}

Exit run_compare(const Flags& flags, const Console& console) {
  const std::size_t words = flags.words.size();
  const bool versus = !flags.versus.empty();
  if (words + (versus ? 1 : 0) != 2)
    throw Error("compare needs two sides",
                "two plan files or strategies, or one and --vs key=value");
  const Compared a = side(flags, flags.words[0]);
  Flags other = flags;
  other.strategy = flags.words[0];
  if (versus && !is_strategy(flags.words[0]))
    throw Error("--vs changes a strategy, not a plan file",
                "give the strategy as text, with --model and --gpus");
  const Compared b =
      versus ? named(judge(changed(other, flags.versus)), flags.versus)
             : side(flags, flags.words[1]);
  print(render_compare(a, b, console.showing()));
  return Exit::yes;
}

}  // namespace

const Command kCompare{
    "compare",
    "Two plans or strategies, term by term.",
    "A B [flags], or A --vs CHANGES",
    {"ztplan compare a.json b.json",
     "ztplan compare tp=8,sp=1 zero=3 --model llama3-8b --gpus 8",
     "ztplan compare zero=3 --vs intra=pcie4 --model 7b --gpus 8"},
    kGroups,
    2,
    run_compare};

}  // namespace ztplan
