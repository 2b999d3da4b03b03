#include "cli/flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"
#include "base/quote.h"

namespace ztplan {
namespace {

constexpr Flag text(const char* name, const char* value, const char* help,
                    std::string Flags::*field) {
  return {name, value, help, field, nullptr};
}
constexpr Flag on(const char* name, const char* help, bool Flags::*field) {
  return {name, nullptr, help, nullptr, field};
}

constexpr Flag kModel[] = {
    text("--model", "M", "name, file, config.json or gpt:layers=2,hidden=64,..",
         &Flags::model),
};

constexpr Flag kMachine[] = {
    text("--gpus", "N",
         "number of GPUs (default: of --strategy, else one node)",
         &Flags::gpus),
    text("--gpu", "NAME", "device, in a node of its usual kind", &Flags::gpu),
    text("--cluster", "NAME", "node or cluster, or a file (default: dgx-h100)",
         &Flags::cluster),
    text("--gpus-per-node", "N", "override: GPUs of one node",
         &Flags::gpus_per_node),
    text("--nodes", "N", "override: number of nodes", &Flags::nodes),
    text("--network", "RATE", "override: 25Gbps a node, 400Gbps/gpu, or ib-ndr",
         &Flags::network),
    text("--intra", "LINK", "override: inside a node, as pcie4 or a rate",
         &Flags::intra),
    text("--p2p", "off", "override: GPUs talk through host memory",
         &Flags::p2p),
    text("--host-memory", "BYTES", "override: of one node, as 1TiB",
         &Flags::host_memory),
    text("--nvme", "BYTES", "override: of one node, as 4TB or 4TB@6GB/s",
         &Flags::nvme),
    text("--calibration", "FILE",
         "measured by ztplan calibrate, for published rates",
         &Flags::calibration),
};

constexpr Flag kTraining[] = {
    text("--engine", "NAME", "megatron, native, deepspeed, fsdp or colossalai",
         &Flags::engine),
    text("--engine-version", "V",
         "how it runs: a version of `ztplan hardware`, or a file",
         &Flags::engine_version),
    text("--seq", "N", "tokens of a sequence (default: the model's)",
         &Flags::seq),
    text("--global-batch", "N",
         "sequences a step (default: published, or 4M tokens)",
         &Flags::global_batch),
    text("--tokens-per-batch", "N", "the same in tokens, as 4M",
         &Flags::tokens_per_batch),
    text("--precision", "P", "bf16, fp16, fp32, fp8 or fp4 (default: bf16)",
         &Flags::precision),
    text("--grad-dtype", "P", "fp32 or bf16 gradients (default: fp32)",
         &Flags::grad_dtype),
    text("--attention", "A", "flash, sdpa or eager (default: flash)",
         &Flags::attention),
    text("--optimizer", "O",
         "adam (default), adam8bit, sgd, lion, adagrad, muon, ..",
         &Flags::optimizer),
    text("--optimizer-dtype", "P", "fp32 or bf16 optimizer states (fp32)",
         &Flags::optimizer_dtype),
    text("--param-dtype", "P",
         "dtype weights are stored in (default: the engine's)",
         &Flags::param_dtype),
    text("--lora", "SPEC", "train adapters alone, as r=8,targets=q,v",
         &Flags::lora),
    text("--quantize", "Q", "frozen weights as nf4, nf4,double or int8",
         &Flags::quantize),
    text("--loss", "L", "kernel of the loss, as chunked (the version's)",
         &Flags::loss),
    text("--load", "L",
         "weights arrive partitioned or replicated (partitioned)",
         &Flags::load),
    text("--lengths", "L",
         "lengths of samples, equal or varied up to --seq (equal)",
         &Flags::lengths),
    text("--expert-load", "F",
         "busiest GPU of experts over the mean, as 1.5 (1)",
         &Flags::expert_load),
    text("--slowest", "P",
         "slowest GPU's speed over the usual one, as 0.95 (1)",
         &Flags::slowest),
};

constexpr Flag kStrategy[] = {
    text("--strategy", "S",
         "as tp=8,pp=8,sp=1,zero=1; a missing key is 1, 0 or none",
         &Flags::strategy),
};

constexpr Flag kLimits[] = {
    text("--tp", "LIST", "tensor parallel sizes, as 1,2,4 or 1..8 (all)",
         &Flags::tp),
    text("--pp", "LIST", "pipeline stages (all)", &Flags::pp),
    text("--vpp", "LIST", "virtual stages of each (all)", &Flags::vpp),
    text("--dp", "LIST", "data parallel sizes (all)", &Flags::dp),
    text("--cp", "LIST", "context parallel sizes (all)", &Flags::cp),
    text("--ep", "LIST", "expert parallel sizes (all)", &Flags::ep),
    text("--etp", "LIST", "expert tensor parallel sizes (1)", &Flags::etp),
    text("--zero", "LIST", "ZeRO stages, as 0..3 (all)", &Flags::zero),
    text("--offload", "LIST", "none, cpu, nvme, cpu+parameters, ... (all)",
         &Flags::offload),
    text("--recompute", "LIST",
         "none, selective:mlp, full, ... (all but modules)", &Flags::recompute),
    text("--micro-batch", "LIST", "sequences of a micro-batch (all)",
         &Flags::micro_batch),
    text("--schedule", "LIST",
         "schedules, as zb-h1,zb-v (1f1b, gpipe, interleaved)",
         &Flags::schedule),
};

constexpr Flag kSearch[] = {
    text("--top", "K", "plans to show (default: 5)", &Flags::top),
    text("--objective", "O", "time, memory, cost or gpus (default: time)",
         &Flags::objective),
    text("--why-not", "S", "strategies to explain, separated by ;",
         &Flags::why_not),
};

constexpr Flag kMargin[] = {
    text("--margin", "P", "memory to keep free, as 5% (default: 0%)",
         &Flags::margin),
    on("--strict", "exit with 5 when less than the margin, or 5%, is free",
       &Flags::strict),
};

constexpr Flag kFile[] = {
    text("-o,--output", "FILE", "write the best plan as JSON", &Flags::output),
    on("--force", "overwrite the file", &Flags::force),
};

constexpr Flag kTarget[] = {
    text("--target", "T", "format of the file (default: what it looks like)",
         &Flags::target),
};

constexpr Flag kEmit[] = {
    text("--target", "T",
         "deepspeed, megatron, fsdp, torchtitan, accelerate, ..",
         &Flags::target),
    text("--launcher", "L", "torchrun, deepspeed, slurm or mpirun (torchrun)",
         &Flags::launcher),
    text("-o,--output", "FOLDER", "where the files go", &Flags::output),
    on("--force", "overwrite files", &Flags::force),
};

constexpr Flag kVersus[] = {
    text("--vs", "CHANGES", "what B differs in, as precision=fp8,intra=pcie4",
         &Flags::versus),
};

constexpr Flag kBudget[] = {
    text("--tokens", "N", "tokens to train on, as 10T", &Flags::tokens),
    text("--price", "USD", "of one GPU for an hour (default: hardware/'s)",
         &Flags::price),
};

constexpr Flag kMemory[] = {
    on("--over-time", "show memory over the step, stage by stage",
       &Flags::over_time),
};

constexpr Flag kTrace[] = {
    text("--trace", "FILE", "write the timeline for ui.perfetto.dev",
         &Flags::trace),
    on("--force", "overwrite the file", &Flags::force),
};

constexpr Flag kTolerance[] = {
    text("--tolerance", "P",
         "exit with 6 when a median error is larger, as 20%",
         &Flags::tolerance),
};

constexpr Flag kRun[] = {
    text("--data", "FILE", "text, or token shards (.bin); several: a,b",
         &Flags::data),
    text("--tokenizer", "FILE",
         "byte pairs; learnt from the text where there is no such file "
         "(default: bytes)",
         &Flags::tokenizer),
    text("--weights", "PATH", "Hugging Face's safetensors to begin with",
         &Flags::weights),
    text("--save-weights", "FILE", "safetensors with their names to end with",
         &Flags::save_weights),
    text("--steps", "N", "steps in all (default: 20)", &Flags::steps),
    text("--learning-rate", "R", "highest (default: 3e-4)",
         &Flags::learning_rate),
    text("--warmup", "N", "steps to get there (default: a tenth)",
         &Flags::warmup),
    text("--weight-decay", "R", "of matrices (default: 0.1)",
         &Flags::weight_decay),
    text("--clip", "R", "largest gradient norm; 0: any (default: 1)",
         &Flags::clip),
    text("--seed", "N", "of weights and order of samples (default: 1)",
         &Flags::seed),
    text("--device", "D", "cpu (default)", &Flags::device),
    text("--offload-folder", "FOLDER",
         "of a drive, for offload=nvme (the temporary one)",
         &Flags::offload_folder),
    text("--patience", "T",
         "wait for a rank that does not come (default: 10min)",
         &Flags::patience),
};

constexpr Flag kCheckpoint[] = {
    text("--checkpoint", "FOLDER", "where states are saved (default: nowhere)",
         &Flags::checkpoint),
    text("--save-every", "N", "steps between (default: at the end alone)",
         &Flags::save_every),
    text("--keep", "N", "newest checkpoints that stay (default: 2)",
         &Flags::keep),
    on("--resume", "go on from the newest checkpoint", &Flags::resume),
};

constexpr Flag kCalibrate[] = {
    text("-o,--output", "FILE", "where the calibration goes", &Flags::output),
    on("--force", "overwrite the file", &Flags::force),
    text("--device", "D", "cpu (default)", &Flags::device),
    text("--budget", "T", "seconds or minutes for it all (default: 60s)",
         &Flags::budget),
    on("--quick", "fewer and smaller sizes", &Flags::quick),
    on("--resume", "measure what the file lacks", &Flags::resume),
    text("--offload-folder", "FOLDER",
         "of a drive, for offload=nvme (the temporary one)",
         &Flags::offload_folder),
    text("--check", "FILE", "instead: whether a calibration still holds",
         &Flags::check_file),
    text("--import-nccl-tests", "LOGS",
         "instead: collectives of --gpu from these", &Flags::nccl_tests),
    text("--gpu", "NAME", "that those logs are of", &Flags::gpu),
    text("--from-runs", "FILES",
         "instead: learn from what ztplan run --json printed",
         &Flags::from_runs),
    text("--calibration", "FILE", "that runs had, or that logs are added to",
         &Flags::calibration),
};

constexpr Flag kParts[] = {
    on("--one-factor", "correct each framework's cluster by half of its runs",
       &Flags::one_factor),
    on("--attribute", "errors by framework, GPU, size, layout, ..",
       &Flags::attribute),
};

constexpr Flag kOutput[] = {
    text("--format", "F", "table, json, csv or md (default: table)",
         &Flags::format),
    on("--json", "the same as --format json", &Flags::json),
    text("--color", "WHEN", "auto, always or never (default: auto)",
         &Flags::color),
    on("--timing", "add how long it took", &Flags::timing),
    on("-q,--quiet", "no progress, no notes", &Flags::quiet),
    on("-v,--verbose", "more detail", &Flags::verbose),
    on("-h,--help", "this text", &Flags::help),
};

std::vector<std::string> names_of(const Flag& flag) {
  return CLI::detail::split(flag.name, ',');
}

std::vector<std::string> all_names(std::span<const FlagGroup* const> groups) {
  std::vector<std::string> names;
  for (const FlagGroup* group : groups) {
    for (const Flag& flag : group->flags) {
      for (const std::string& name : names_of(flag)) names.push_back(name);
    }
  }
  return names;
}

[[noreturn]] void refuse_unknown(const std::string& command,
                                 std::span<const FlagGroup* const> groups,
                                 const std::string& typed) {
  const std::string name = typed.substr(0, typed.find('='));
  const std::string close = nearest_name(name, all_names(groups));
  throw Error(fmt::format("{} has no flag {}", command, quote(name)),
              close.empty()
                  ? fmt::format("ztplan {} --help lists them", command)
                  : fmt::format("did you mean {}?", close));
}

void add_flag(CLI::App& app, const Flag& flag, Flags& flags) {
  if (flag.text != nullptr) {
    app.add_option(flag.name, flags.*flag.text)->allow_extra_args(false);
  } else {
    app.add_flag(flag.name, flags.*flag.on)->disable_flag_override();
  }
}

[[noreturn]] void refuse_empty(const std::string& command,
                               const std::string& name) {
  throw Error(fmt::format("{} needs a value", name),
              fmt::format("ztplan {} --help shows which", command));
}

// The flag whose name CLI11's words hold: the longest, as --gpus-per-node
// holds --gpus too; null when there is none. Of a switch it writes no dashes.
const CLI::Option* option_in(const CLI::App& app, const std::string& words) {
  const CLI::Option* found = nullptr;
  for (const CLI::Option* option : app.get_options()) {
    const std::string& name = option->get_name();
    const std::size_t dashes = name.find_first_not_of('-');
    const bool named = words.find(name) != std::string::npos ||
                       words.starts_with(name.substr(dashes) + " ");
    const bool longer =
        found == nullptr || name.size() > found->get_name().size();
    if (named && longer) found = option;
  }
  return found;
}

// CLI11's own words for what went wrong, as a sentence of ours.
[[noreturn]] void refuse(const std::string& command, const CLI::App& app,
                         const CLI::ParseError& problem) {
  const CLI::Option* option = option_in(app, problem.what());
  if (option == nullptr)
    throw Error(problem.what(), fmt::format("see ztplan {} --help", command));
  const std::string name = option->get_name();
  if (option->get_expected_min() == 0)
    throw Error(fmt::format("{} takes no value", name),
                fmt::format("write {} alone, or leave it out", name));
  if (option->count() > 1)
    throw Error(fmt::format("{} is given {} times", name, option->count()),
                "give it once");
  refuse_empty(command, name);
}

// What CLI11 reads otherwise: "--model= --gpus 8" as the model "--gpus", and
// "-o=x" as the file "=x".
void refuse_equals(const std::string& command,
                   std::span<const std::string> words) {
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (!word.starts_with("-") || equals == std::string::npos) continue;
    const std::string name = word.substr(0, equals);
    if (equals + 1 == word.size()) refuse_empty(command, name);
    if (!word.starts_with("--"))
      throw Error(fmt::format("{} takes no =", name),
                  fmt::format("write {} {}", name, word.substr(equals + 1)));
  }
}

// "-o ''" is no way to say nothing: a script's variable was empty.
void refuse_empty_values(const std::string& command, const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_expected_min() == 0) continue;
    for (const std::string& value : option->results())
      if (value.empty()) refuse_empty(command, option->get_name());
  }
}

}  // namespace

const FlagGroup kModelFlags{"Model", kModel};
const FlagGroup kMachineFlags{"Machine", kMachine};
const FlagGroup kTrainingFlags{"Training", kTraining};
const FlagGroup kStrategyFlags{"Strategy", kStrategy};
const FlagGroup kLimitFlags{"Limits of the search (lists)", kLimits};
const FlagGroup kSearchFlags{"Search", kSearch};
const FlagGroup kMarginFlags{"Memory", kMargin};
const FlagGroup kFileFlags{"Plan file", kFile};
const FlagGroup kTargetFlags{"File", kTarget};
const FlagGroup kEmitFlags{"Files", kEmit};
const FlagGroup kVersusFlags{"Other side", kVersus};
const FlagGroup kBudgetFlags{"Budget", kBudget};
const FlagGroup kMemoryFlags{"Curve", kMemory};
const FlagGroup kTraceFlags{"Trace", kTrace};
const FlagGroup kToleranceFlags{"Check", kTolerance};
const FlagGroup kRunFlags{"Run", kRun};
const FlagGroup kCheckpointFlags{"Checkpoints", kCheckpoint};
const FlagGroup kCalibrateFlags{"Calibration", kCalibrate};
const FlagGroup kPartFlags{"Parts", kParts};
const FlagGroup kOutputFlags{"Output", kOutput};

Flags parse_flags(const std::string& command,
                  std::span<const FlagGroup* const> groups,
                  std::span<const std::string> words) {
  Flags flags;
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  for (const FlagGroup* group : groups) {
    for (const Flag& flag : group->flags) add_flag(app, flag, flags);
  }
  refuse_equals(command, words);
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& problem) {
    refuse(command, app, problem);
  }
  refuse_empty_values(command, app);
  flags.words = app.remaining();
  for (const std::string& word : flags.words) {
    if (word.starts_with("-") && word != "-") {
      refuse_unknown(command, groups, word);
    }
  }
  return flags;
}

}  // namespace ztplan
