// From what a user says to a question: everything left out takes a default,
// and every default that was taken is told with its reason.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "search/question.h"
#include "spec/catalog.h"

namespace ztplan {

/// Most devices, sequence tokens and sequences a question may have: far past
/// what exists, and small enough that no product of sizes overflows.
constexpr int kMostGpus = 1'000'000;
constexpr int kMostSequence = 4 * 1024 * 1024;
constexpr int kMostBatch = 10'000'000;
/// Speed of the slowest device over the usual one; the busiest device of
/// experts over their mean.
constexpr double kSlowest = 0.01;
constexpr double kMostLoad = 1000;

/// Empty and zero fields take their default.
struct Request {
  std::string model = {};  // name, path or text, as load_model
  std::optional<ModelSpec> given_model = {};  // in its place
  std::string cluster = {};                   // name or path, as load_cluster
  std::string calibration = {};  // path, as read_measured; empty: published
  ClusterOverrides machine = {};
  int gpus = 0;             // 0: machine.nodes, or one node
  int sequence = 0;         // tokens
  int global_batch = 0;     // sequences
  double batch_tokens = 0;  // instead of global_batch
  std::optional<Precision> precision = {};
  std::optional<Precision> gradient = {};
  std::optional<AttentionKernel> attention = {};
  std::optional<OptimizerKind> optimizer = {};
  std::optional<Precision> moments = {};
  std::optional<Precision> parameter = {};
  Adapters adapters = {};
  Quantize quantize = Quantize::none;
  std::optional<LossKernel> loss = {};
  Loading loading = Loading::partitioned;
  Lengths lengths = Lengths::equal;
  double expert_load = 1;
  double slowest = 1;       // speed of the slowest device over the usual one
  std::string engine = {};  // empty: those of `default_engines`
  std::string engine_version = {};  // of hardware/frameworks, or a path
  std::string usual_version = {};   // of a file's format: where none is named
  Limits limits = {};
  Objective objective = Objective::time;
  int top = 5;
  double margin = 0;
};

/// A value nobody gave.
struct Default {
  std::string option;  // "--seq"
  std::string value;   // "2048"
  std::string reason;  // "the model's"
};

struct Asked {
  Request request;
  Question question;
  std::vector<Default> defaults;  // in the order of the options
};

/// GPUs of a node where the user fixed them: by --gpus-per-node, or by --gpus
/// over --nodes; else 0.
int given_per_node(const Asked& asked);

/// Reads models/ and hardware/. Throws `Error` on an unknown name and on
/// values out of range.
Asked ask(const Request& request);

/// Sequences of a step when nobody says: those of the model's publication, or
/// about 4M tokens; at least one for every 8 devices, and a multiple of the
/// odd part of `devices`, so that data parallelism can use all of them.
struct BatchChoice {
  int sequences = 0;
  std::string reason;
};
BatchChoice default_batch(const ModelSpec& model, int sequence, int devices);

std::string_view to_text(Objective objective);
Objective parse_objective(std::string_view text);

}  // namespace ztplan
