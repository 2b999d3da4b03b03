// The configuration files of engines: which there are, and how each is written
// and read. One pair of files a format; adding one adds its line to the list in
// format.cc. What a strategy costs is not known here.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "search/finding.h"
#include "search/question.h"

namespace ztplan {

/// What a reader may assume of the rest of the question.
struct Given {
  int gpus = 0;                      // 0: not said
  const ModelSpec* model = nullptr;  // for values that follow the model
  int pipeline = 1;  // stages, where the user says what the file does not
};

/// A file read back. What it does not say is absent; `strategy.data` is what is
/// left of the GPUs unless the file says more.
struct Configuration {
  const Engine* engine = nullptr;
  Strategy strategy;
  std::optional<int> gpus;
  std::optional<int> sequence, global_batch, micro_batch, accumulation;
  std::optional<Precision> precision, gradient, parameter, moments;
  std::optional<AttentionKernel> attention;
  std::optional<OptimizerKind> optimizer;
  std::optional<ModelSpec> model;  // where the file describes one
  std::vector<Finding> findings;
  std::vector<std::string> unsaid;  // keys of a strategy that it cannot say
};

/// A file to write; `name` has no folder.
struct EmittedFile {
  std::string name;
  std::string text;
  bool executable = false;
};

enum class Launcher { deepspeed, torchrun, slurm, mpirun };
std::string_view to_text(Launcher launcher);
Launcher parse_launcher(std::string_view text);

/// What is emitted: a plan with the question it answers.
struct Emission {
  const Question& question;
  const Plan& plan;
  Launcher launcher = Launcher::torchrun;
};

struct Emitted {
  std::vector<EmittedFile> files;   // configuration, launch script, README
  std::vector<std::string> unsaid;  // parts of the plan the format cannot say
};

struct FileFormat {
  const char* name;    // "deepspeed", as --target names it
  const char* engine;  // whose rules a plan must obey to be emitted
  /// Whether a file looks like one of this format, by its name and its text.
  bool (*recognizes)(std::string_view path, std::string_view text);
  /// Throws `Error` with file position where the text is no such file.
  Configuration (*read)(std::string_view path, std::string_view text,
                        const Given& given);
  /// Throws `Error` when the plan cannot be run by this format at all.
  Emitted (*emit)(const Emission& emission);
  /// How `engine` runs when this format starts it: a version of
  /// hardware/frameworks; empty: its usual one.
  const char* version = "";
};

/// All formats, in the order they are tried.
std::span<const FileFormat* const> formats();
/// Throws `Error` on a name it does not know, with the nearest.
const FileFormat& find_format(std::string_view name);
/// The format that recognizes a file; throws `Error` naming all of them.
const FileFormat& recognize(std::string_view path, std::string_view text);

}  // namespace ztplan
