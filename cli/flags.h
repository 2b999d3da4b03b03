// What a user may type after a command: one row a flag, from which both the
// parser and the help are made. What the texts mean is cli/ask's.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace ztplan {

/// Everything as typed; empty means not given.
struct Flags {
  std::string model;
  std::string gpus, gpu, cluster, gpus_per_node, nodes, network, intra, p2p;
  std::string host_memory, nvme, calibration;
  std::string engine, engine_version, seq, global_batch, tokens_per_batch,
      precision;
  std::string grad_dtype, attention;
  std::string optimizer, optimizer_dtype, param_dtype, lora, quantize, load,
      lengths, loss, expert_load, slowest;
  std::string strategy;
  std::string tp, pp, vpp, dp, cp, ep, etp, zero, offload, recompute,
      micro_batch;
  std::string schedule;
  std::string top, objective, margin;
  std::string output, trace, tolerance;
  std::string target, launcher, versus, tokens, price, why_not;
  std::string data, steps, seed, learning_rate, warmup, weight_decay, clip;
  std::string device, offload_folder, checkpoint, save_every, keep, tokenizer;
  std::string weights, save_weights, patience;
  std::string budget, from_runs, check_file, nccl_tests;
  bool quick = false, resume = false;
  std::string format, color;
  bool strict = false, over_time = false, force = false;
  bool json = false, timing = false, quiet = false, verbose = false;
  bool one_factor = false, attribute = false;
  bool help = false;
  std::vector<std::string> words;  // without a dash: "show", NAME, FILE
};

/// Exactly one of `text` and `on` is set: a value, or a switch.
struct Flag {
  const char* name;   // "--gpus", or "-o,--output"
  const char* value;  // "N"; nullptr for a switch
  const char* help;   // with unit and default
  std::string Flags::*text = nullptr;
  bool Flags::*on = nullptr;
};

struct FlagGroup {
  const char* title;
  std::span<const Flag> flags;
};

extern const FlagGroup kModelFlags;
extern const FlagGroup kMachineFlags;
extern const FlagGroup kTrainingFlags;
extern const FlagGroup kStrategyFlags;
extern const FlagGroup kLimitFlags;
extern const FlagGroup kSearchFlags;
extern const FlagGroup kMarginFlags;
extern const FlagGroup kFileFlags;
extern const FlagGroup kTargetFlags;
extern const FlagGroup kEmitFlags;
extern const FlagGroup kVersusFlags;
extern const FlagGroup kBudgetFlags;
extern const FlagGroup kMemoryFlags;
extern const FlagGroup kTraceFlags;
extern const FlagGroup kToleranceFlags;
extern const FlagGroup kPartFlags;
extern const FlagGroup kRunFlags;
extern const FlagGroup kCheckpointFlags;
extern const FlagGroup kCalibrateFlags;
extern const FlagGroup kOutputFlags;

/// Throws `Error` for an unknown flag, with the nearest one there is, for one
/// without its value or with an empty one, for a switch with one, and for one
/// given twice.
Flags parse_flags(const std::string& command,
                  std::span<const FlagGroup* const> groups,
                  std::span<const std::string> words);

}  // namespace ztplan
