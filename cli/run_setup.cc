#include "cli/run_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/quantity_text.h"
#include "base/quote.h"
#include "calibrate/calibrate.h"
#include "cli/ask.h"
#include "exec/byte_pairs.h"
#include "interop/plan_file.h"
#include "report/run_answer.h"
#include "report/trace.h"
#include "spec/measured.h"
#include "step/build_step.h"

namespace ztplan {
namespace {

constexpr int kMostSteps = 1'000'000'000;
constexpr int kUsualSteps = 20;

/// A plan file, or a strategy given by flags, by the executor's own rules.
Judged wanted(Flags flags) {
  if (!flags.words.empty()) {
    PlanFile file = read_plan_file(flags.words[0]);
    file.request.engine = "native";
    file.request.engine_version.clear();
    return judge(ask(file.request), file.strategy);
  }
  if (flags.model.empty())
    throw Error("run what?", "give a plan file, or --model and --strategy");
  flags.engine = "native";
  const Strategy strategy = strategy_of(flags);
  return judge(ask(request_of(flags)), strategy);
}

int whole_or(const char* flag, const std::string& typed, int usual) {
  return typed.empty() ? usual : parse_whole(flag, typed, kMostSteps);
}
/// 0 too.
int natural_or(const char* flag, const std::string& typed, int usual) {
  return typed == "0" ? 0 : whole_or(flag, typed, usual);
}
double number_or(const char* flag, const std::string& typed, double usual,
                 double most) {
  return typed.empty() ? usual : parse_number(flag, typed, 0, most);
}

TrainingOptions options_of(const Flags& flags) {
  constexpr double kUsualRate = 3e-4, kFloorShare = 0.1;
  constexpr double kUsualDecay = 0.1, kUsualClip = 1, kMostClip = 1e6;
  constexpr int kWarmupShare = 10, kUsualKeep = 2;
  TrainingOptions options;
  LearningRate& rate = options.learning_rate;
  rate.steps = whole_or("--steps", flags.steps, kUsualSteps);
  rate.peak = number_or("--learning-rate", flags.learning_rate, kUsualRate, 1);
  rate.floor = kFloorShare * rate.peak;
  const int tenth = static_cast<int>(rate.steps) / kWarmupShare;
  rate.climb = natural_or("--warmup", flags.warmup, tenth);
  if (rate.climb > rate.steps)
    throw Error(fmt::format("--warmup {} is longer than --steps {}", rate.climb,
                            rate.steps),
                "fewer steps of warm-up");
  options.weight_decay = static_cast<float>(
      number_or("--weight-decay", flags.weight_decay, kUsualDecay, 1));
  options.clip = static_cast<float>(
      number_or("--clip", flags.clip, kUsualClip, kMostClip));
  options.seed =
      static_cast<std::uint64_t>(natural_or("--seed", flags.seed, 1));
  options.checkpoint = {
      flags.checkpoint, natural_or("--save-every", flags.save_every, 0),
      whole_or("--keep", flags.keep, kUsualKeep), flags.resume};
  options.patience = patience_of(flags);
  options.weights = flags.weights;
  options.save_weights = flags.save_weights;
  options.offload_folder = flags.offload_folder.empty()
                               ? std::filesystem::temp_directory_path().string()
                               : flags.offload_folder;
  const bool needs_folder = flags.resume || !flags.save_every.empty();
  if (needs_folder && flags.checkpoint.empty())
    throw Error("--resume and --save-every are of checkpoints",
                "add --checkpoint FOLDER");
  return options;
}

std::vector<std::string> paths_of(const std::string& typed) {
  std::vector<std::string> paths;
  std::size_t from = 0;
  while (from <= typed.size()) {
    const std::size_t comma = std::min(typed.find(',', from), typed.size());
    paths.push_back(typed.substr(from, comma - from));
    from = comma + 1;
  }
  return paths;
}

std::string text_of(const std::vector<std::string>& paths) {
  std::string text;
  for (const std::string& path : paths) {
    const MappedFile file(path);
    text.append(reinterpret_cast<const char*>(file.bytes().data()),
                file.bytes().size());
  }
  return text;
}

/// Bytes or shards as they are, or the text in byte pairs: of the file, or as
/// many as the model has words for, learnt and kept there.
TokenSource tokens_of(const Flags& flags, std::int64_t vocabulary) {
  const std::vector<std::string> paths = paths_of(flags.data);
  if (flags.tokenizer.empty()) return TokenSource::open(paths, vocabulary);
  const std::string text = text_of(paths);
  if (!std::filesystem::exists(flags.tokenizer)) {
    constexpr std::int64_t kBytes = 256;
    if (vocabulary < kBytes)
      throw Error(fmt::format("byte pairs begin at 256 words, the model has {}",
                              vocabulary),
                  "a model with vocab=512 or more");
    BytePairs::train(text, vocabulary).save(flags.tokenizer);
  }
  return TokenSource::of(BytePairs::load(flags.tokenizer).encode(text),
                         vocabulary);
}

Samples samples_of(const Flags& flags, const Question& question,
                   std::uint64_t seed) {
  if (flags.data.empty())
    throw Error("train on what?", "add --data FILE: a text, or token shards");
  return {tokens_of(flags, question.model.vocab), question.workload.sequence,
          seed};
}

double batch_tokens(const Question& question) {
  return static_cast<double>(question.workload.global_batch) *
         question.workload.sequence;
}

/// Model flops of a step over what the plan's devices could do in `seconds`.
double mfu_of(const Plan& plan, Seconds seconds) {
  return plan.throughput.mfu * plan.time.total().value / seconds.value;
}

RunStep step_of(const StepReport& report, const Judged& judged,
                std::int64_t steps) {
  const Question& question = judged.asked.question;
  RunStep step;
  step.step = report.step;
  step.steps = steps;
  step.loss = report.result.loss;
  step.gradient_norm = report.result.gradient_norm;
  step.balance = report.result.balance;
  step.learning_rate = report.learning_rate;
  step.seconds = report.seconds;
  step.predicted = judged.plan.time.total();
  step.tokens_per_second = batch_tokens(question) / report.seconds.value;
  step.mfu = mfu_of(judged.plan, report.seconds);
  step.skipped = report.result.skipped;
  return step;
}

/// What the plan says, without what only a driver would hold.
RunCosts predicted_costs(const Plan& plan) {
  RunCosts costs{plan.memory, {}, plan.time.total(), plan.traffic};
  costs.memory.terms[static_cast<std::size_t>(Term::overhead)] = {};
  for (int i = 0; i < kTimeTerms; ++i)
    costs.terms[static_cast<std::size_t>(i)] =
        plan.time[static_cast<TimeTerm>(i)];
  return costs;
}

RunCosts measured_costs(const Measured& measured) {
  RunCosts costs;
  costs.memory.terms = measured.device.at_peak;
  costs.memory.host = measured.host.peak;
  costs.terms = measured.terms;
  costs.step = measured.step;
  const auto sent = [&](TimeTerm term) {
    return measured.tally.sent[static_cast<std::size_t>(term)];
  };
  costs.traffic.tensor = sent(TimeTerm::tensor_comm);
  costs.traffic.data = sent(TimeTerm::data_comm);
  costs.traffic.pipeline = sent(TimeTerm::pipeline_comm);
  costs.traffic.context = sent(TimeTerm::context_comm);
  costs.traffic.expert = sent(TimeTerm::expert_comm);
  return costs;
}

void write_trace_file(const Judged& judged, const Measured& measured,
                      const Flags& flags) {
  const Question& q = judged.asked.question;
  const Setting setting{q.model, q.cluster, q.workload};
  const StepGraph graph =
      build_step(setting, *judged.plan.engine, judged.plan.strategy,
                 micro_batches(judged.plan.strategy, q.workload));
  write_whole(
      flags.trace, flags.force ? Overwrite::yes : Overwrite::no,
      [&](std::ostream& out) { write_trace(graph, measured.timeline, out); });
}

/// What was measured elsewhere foretells nothing here.
void check_machine(const Asked& asked, bool anyway) {
  const auto& measured = asked.question.calibration.measured;
  if (!measured || anyway) return;
  if (measured->processor == processor_name() &&
      measured->cores == processor_cores())
    return;
  throw Error(
      fmt::format("{} measured {} with {} cores, this is {} with {}",
                  asked.request.calibration, measured->processor,
                  measured->cores, processor_name(), processor_cores()),
      "ztplan calibrate measures this machine; --force takes it all the same");
}

bool deviates(const RunAnswer& answer, double tolerance) {
  const auto off = [&](double measured, double predicted) {
    return std::abs(measured - predicted) > tolerance * predicted;
  };
  return off(answer.measured.step.value, answer.predicted.step.value) ||
         off(static_cast<double>(answer.measured.memory.peak().value),
             static_cast<double>(answer.predicted.memory.peak().value));
}

}  // namespace

std::chrono::milliseconds patience_of(const Flags& flags) {
  constexpr double kMostSeconds = 30.0 * 24 * 3600;  // a month
  if (flags.patience.empty()) return TrainingOptions{}.patience;
  const Seconds typed = parse_seconds(flags.patience);
  const auto patience =
      std::chrono::duration<double>(std::min(kMostSeconds, typed.value));
  const auto whole = std::chrono::ceil<std::chrono::milliseconds>(patience);
  if (whole.count() > 0) return whole;
  throw Error("--patience 0s ends every run", "seconds or minutes, as 10min");
}

RunSetup set_up_run(const Flags& flags) {
  if (!flags.device.empty() && flags.device != "cpu")
    throw Error(fmt::format("--device {} is not built in", quote(flags.device)),
                "cpu");
  for (const std::string& file : {flags.trace, flags.save_weights})
    if (!file.empty())
      check_target(file, flags.force ? Overwrite::yes : Overwrite::no);
  const double tolerance = flags.tolerance.empty()
                               ? HUGE_VAL
                               : parse_share("--tolerance", flags.tolerance);
  Judged judged = wanted(flags);
  check_machine(judged.asked, flags.force);
  const TrainingOptions options = options_of(flags);
  Samples samples = samples_of(flags, judged.asked.question, options.seed);
  return {std::move(judged), options, std::move(samples), tolerance};
}

bool fits(const RunSetup& setup) {
  return !shortage(setup.judged.asked.question, setup.judged.plan.memory);
}

Exit refuse_to_fit(const RunSetup& setup) {
  note(fmt::format("{}: it does not fit\n",
                   to_text(setup.judged.plan.strategy)));
  return Exit::nothing_fits;
}

TrainingJob job_of(const RunSetup& setup) {
  const Question& question = setup.judged.asked.question;
  return {{question.model, question.cluster, question.workload},
          *setup.judged.plan.engine,
          setup.judged.plan.strategy,
          setup.options,
          setup.samples};
}

void print_start(const RunSetup& setup, const Console& console) {
  print(render_run_start(setup.judged.asked, setup.judged.plan,
                         console.showing()));
}

std::function<void(const StepReport&)> step_printer(const RunSetup& setup,
                                                    const Console& console) {
  return [&](const StepReport& report) {
    print(render_run_step(
        step_of(report, setup.judged, setup.options.learning_rate.steps),
        console.showing()));
  };
}

Exit conclude(const RunSetup& setup, const TrainingOutcome& outcome,
              const Flags& flags, const Console& console) {
  const Judged& judged = setup.judged;
  if (!outcome.measured) {
    note(fmt::format("nothing to do: {} steps are done\n",
                     outcome.resumed_from));
    return Exit::yes;
  }
  const RunAnswer answer{judged.asked,
                         judged.plan,
                         "cpu",
                         outcome.steps,
                         outcome.resumed_from,
                         outcome.interrupted,
                         predicted_costs(judged.plan),
                         measured_costs(*outcome.measured)};
  print(render_run_end(answer, console.showing()));
  if (!flags.trace.empty()) write_trace_file(judged, *outcome.measured, flags);
  if (outcome.interrupted) return Exit::interrupted;
  return deviates(answer, setup.tolerance) ? Exit::deviates : Exit::yes;
}

}  // namespace ztplan
