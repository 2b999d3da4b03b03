// ztplan diagnose: a log or traceback: what ran out, and what would help.
#include "interop/diagnose.h"

#include <fmt/format.h>

#include <array>
#include <iostream>
#include <iterator>

#include "base/error.h"
#include "base/json.h"
#include "base/quote.h"
#include "cli/ask.h"
#include "cli/one_plan.h"
#include "report/render_diagnosis.h"

namespace ztplan {
namespace {

constexpr const FlagGroup* kGroups[] = {&kModelFlags,    &kMachineFlags,
                                        &kTrainingFlags, &kStrategyFlags,
                                        &kLimitFlags,    &kOutputFlags};

constexpr std::int64_t kLargestLog = 256 * kMiB;

std::string read_stdin() {
  std::string text;
  constexpr std::size_t kChunk = 65536;
  std::array<char, kChunk> chunk{};
  while (std::cin.read(chunk.data(), chunk.size()) || std::cin.gcount() > 0) {
    text.append(chunk.data(), static_cast<std::size_t>(std::cin.gcount()));
    if (static_cast<std::int64_t>(text.size()) > kLargestLog)
      throw Error("the log is larger than 256 MiB", "cut off its end: tail");
  }
  return text;
}

/// The sizes of --tp, --pp, ... in the place of those of --strategy.
std::string strategy_text(const Flags& flags) {
  std::string text = flags.strategy;
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty())
      text += fmt::format("{}{}={}", text.empty() ? "" : ",", key, value);
  };
  add("tp", flags.tp);
  add("pp", flags.pp);
  add("vpp", flags.vpp);
  add("cp", flags.cp);
  add("ep", flags.ep);
  add("etp", flags.etp);
  add("dp", flags.dp);
  add("zero", flags.zero);
  add("offload", flags.offload);
  add("recompute", flags.recompute);
  add("micro", flags.micro_batch);
  add("schedule", flags.schedule);
  return text;
}

Exit run_diagnose(const Flags& flags, const Console& console) {
  if (flags.words.empty())
    throw Error("which log?", "name a file, or - for stdin");
  const std::string& path = flags.words[0];
  const std::string text =
      path == "-" ? read_stdin() : read_file(path, Bytes{kLargestLog});
  const FailureLog log = read_failure_log(text);
  if (log.kind == FailureKind::none && !log.peak)
    throw Error(fmt::format("{} says nothing about memory", quote(path)),
                "an out-of-memory message, a traceback or a training log");
  Diagnosis diagnosis = diagnose(log);
  if (flags.model.empty()) {
    print(render_diagnosis(diagnosis, nullptr, console.showing()));
    return Exit::yes;
  }
  Flags own = flags;
  own.strategy = strategy_text(flags);
  if (own.strategy.empty()) own.strategy = "micro=1";
  own.tp = own.pp = own.cp = own.ep = own.etp = own.dp = own.zero = "";
  own.offload = own.recompute = own.micro_batch = "";
  own.vpp = own.schedule = "";
  const Strategy strategy = strategy_of(own);
  Request request = request_of(own);
  if (request.global_batch == 0 && request.batch_tokens == 0)
    request.global_batch = strategy.data * strategy.micro_batch;
  const Judged judged = judge(ask(request), strategy);
  explain_with(log, judged.asked.question, judged.plan, diagnosis);
  print(render_diagnosis(diagnosis, &judged.asked, console.showing()));
  return Exit::yes;
}

}  // namespace

const Command kDiagnose{
    "diagnose",
    "Reads an out-of-memory log: which tensor, which term, what to change.",
    "LOG [--model M --gpus N --strategy S] [flags]",
    {"ztplan diagnose oom.log --model llama2-7b --gpus 8 --strategy zero=3",
     "ztplan diagnose train.log", "ztplan diagnose - --model 7b < oom.log"},
    kGroups,
    1,
    run_diagnose};

}  // namespace ztplan
