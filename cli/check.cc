// ztplan check: an existing configuration, or a strategy: legal, fits, slow?
#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/ask.h"
#include "cli/command.h"
#include "interop/format.h"
#include "interop/shell_script.h"
#include "report/check_answer.h"
#include "search/evaluate.h"
#include "spec/catalog.h"

namespace ztplan {
namespace {

constexpr const FlagGroup* kGroups[] = {
    &kTargetFlags,   &kModelFlags,  &kMachineFlags, &kTrainingFlags,
    &kStrategyFlags, &kMarginFlags, &kOutputFlags};

constexpr Bytes kLargestFile{64 * kMiB};
constexpr std::size_t kRemedies = 6;

/// A file with the format it is read as; or a strategy of no file.
struct Subject {
  Configuration configuration;
  std::string format, version;
};

Subject subject_of(const Flags& flags, const Given& given) {
  Subject subject;
  if (flags.words.empty()) {
    if (flags.strategy.empty())
      throw Error("what is to be checked?",
                  "name a file, or --strategy with --engine");
    const std::string engine = engine_named(flags);
    subject.configuration.engine =
        &find_engine(engine.empty() ? "megatron" : engine);
    subject.configuration.strategy = parse_strategy(
        meant_by(subject.configuration.engine->name, flags.strategy),
        given.gpus);
    return subject;
  }
  const std::string& path = flags.words[0];
  std::string text = read_file(path, kLargestFile);
  if (is_shell_script(path, text)) text = with_sources(path, text);
  const FileFormat& format =
      flags.target.empty() ? recognize(path, text) : find_format(flags.target);
  subject.format = format.name;
  subject.version = format.version;
  subject.configuration = format.read(path, text, given);
  Configuration& c = subject.configuration;
  const int gpus = given.gpus > 0 ? given.gpus : c.gpus.value_or(0);
  if (!flags.engine.empty()) c.engine = &find_engine(flags.engine);
  if (!flags.strategy.empty() || gpus > 0)
    c.strategy = overlay_strategy(
        c.strategy, meant_by(c.engine->name, flags.strategy), gpus);
  return subject;
}

/// Sequences of a step where neither file nor user says: one accumulation.
int batch_of(const Configuration& c) {
  if (c.global_batch) return *c.global_batch;
  const std::int64_t batch = std::int64_t{c.strategy.data} *
                             c.strategy.micro_batch *
                             c.accumulation.value_or(1);
  return static_cast<int>(std::min<std::int64_t>(batch, kMostBatch));
}

template <class Value>
void fill(std::optional<Value>& field, const std::optional<Value>& said) {
  if (!field) field = said;
}

/// What the user typed, and what the file says where he did not; `typed` is
/// the model of --model.
Request joined(const Flags& flags, const std::optional<ModelSpec>& typed,
               const Subject& subject) {
  const Configuration& c = subject.configuration;
  Request request = request_of(flags);
  request.engine = c.engine->name;
  request.usual_version = subject.version;
  request.given_model = typed ? typed : c.model;
  if (request.gpus == 0 && request.machine.nodes == 0)
    request.gpus = c.gpus.value_or(devices(c.strategy));
  if (request.sequence == 0) request.sequence = c.sequence.value_or(0);
  if (request.global_batch == 0 && request.batch_tokens == 0)
    request.global_batch = batch_of(c);
  fill(request.precision, c.precision);
  fill(request.gradient, c.gradient);
  fill(request.parameter, c.parameter);
  fill(request.moments, c.moments);
  fill(request.attention, c.attention);
  fill(request.optimizer, c.optimizer);
  return request;
}

void judge(const Asked& asked, CheckAnswer& answer) {
  const Question& question = asked.question;
  const Setting setting{question.model, question.cluster, question.workload};
  if (auto misfit = why_illegal(*answer.engine, setting, answer.strategy)) {
    answer.misfits.push_back(*misfit);
    return;
  }
  answer.plan = evaluate(question, *answer.engine, answer.strategy);
  answer.lack = shortage(question, answer.plan->memory);
  if (answer.lack)
    answer.remedies =
        remedies(question, *answer.engine, answer.strategy, kRemedies);
}

Exit exit_of(const CheckAnswer& answer, const Flags& flags) {
  if (answer.is_illegal()) return Exit::illegal;
  if (answer.lack) return Exit::nothing_fits;
  if (!flags.strict || !answer.plan) return Exit::yes;
  const Bytes most = usable_memory(answer.asked->question.cluster,
                                   answer.asked->request.margin);
  return answer.plan->memory.peak() > most ? Exit::below_margin : Exit::yes;
}

Exit run_check(const Flags& flags, const Console& console) {
  std::optional<ModelSpec> model;
  if (!flags.model.empty()) model = load_model(flags.model);
  const int gpus =
      flags.gpus.empty() ? 0 : parse_whole("--gpus", flags.gpus, kMostGpus);
  const Subject subject =
      subject_of(flags, {gpus, model ? &*model : nullptr,
                         parse_strategy(flags.strategy, 0).pipeline});
  const Configuration& c = subject.configuration;
  CheckAnswer answer;
  answer.format = subject.format;
  answer.engine = c.engine;
  answer.strategy = c.strategy;
  answer.findings = c.findings;
  answer.unsaid = c.unsaid;
  std::optional<Asked> asked;
  if (model || c.model) {
    asked = ask(joined(flags, model, subject));
    asked->question.margin = 0;
    answer.asked = &*asked;
    judge(*asked, answer);
  }
  print(render_check(answer, console.showing()));
  return exit_of(answer, flags);
}

}  // namespace

const Command kCheck{
    "check",
    "Judges an engine's configuration: legal, fits, slow, what to change.",
    "FILE --model M --gpus N [flags]",
    {"ztplan check ds_config.json --model llama3-8b --gpus 8",
     "ztplan check pretrain.sh --gpus 64 --gpu a100-80g",
     "ztplan check --engine deepspeed --model 7b --gpus 8 --strategy zero=2"},
    kGroups,
    1,
    run_check};

}  // namespace ztplan
