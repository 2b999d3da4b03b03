// Runs one rank's part of a step graph: the tasks of its stage in the order of
// the graph, each lane waiting for what the graph says it waits for.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <tuple>

#include "exec/stage_passes.h"
#include "step/step_graph.h"
#include "step/timeline.h"

namespace ztplan {

/// All groups of one rank, and what its calls counted.
struct RankGroups {
  Peers world, tied;
  PipelinePeers pipeline;
  Holders dense, experts;
};

/// Where a rank's time went: calls of its groups by their term, what it waited
/// for other stages, its optimizer, and the rest as compute.
struct StepResult {
  double loss = 0;                // mean over the tokens of the global batch
  double gradient_norm = 0;       // before clipping
  std::optional<double> balance;  // balance loss, mean over passes through
                                  // expert layers: 1 is even; none: no experts
  bool skipped = false;  // gradients were not finite: nothing was stepped
  std::array<Seconds, kTimeTerms> terms{};
  std::vector<Span> spans;  // of this stage's tasks, by task; others empty
};

class StepRunner {
 public:
  /// `graph` is the whole step of `units`' strategy. All outlive this.
  StepRunner(RankContext& context, const StepGraph& graph,
             const StageUnits& units, StageStates& states, StagePasses& passes,
             RankGroups& groups, int stage);

  struct Numbers {
    StepNumbers step;
    float loss_scale = 1;
    float clip = 1;         // largest norm of gradients; 0: any
    float balance = 0.01F;  // weight of the experts' balance loss
  };
  /// One step. Every rank of the world makes the same calls.
  StepResult run(const TokenFeed& feed, const Numbers& numbers);

 private:
  void perform(const Task& task);
  void forward(const Task& task);
  void backward(const Task& task);
  void backward_inputs(const Task& task);
  void backward_weights(const Task& task);
  void gather(const Task& task);
  void reduce(const Task& task);
  void sum_norms();
  void step(const Task& task);
  void transfer(const Task& task);
  void bring(const Task& task, Channel channel);
  std::pair<std::size_t, std::size_t> units_of(const Task& task) const;
  const std::vector<Unit>& chunk(const Task& task) const;
  using Clock = std::chrono::steady_clock;
  Seconds now() const;
  Seconds in_calls() const;
  void run_tasks();
  void settle_terms(Seconds total);
  bool is_mine(const Task& task) const;
  bool is_last(const Task& task) const;
  bool is_reduced(const Unit& unit) const;
  bool is_gathered(const Unit& unit) const;
  void begin_pass();
  void lay_slots();
  int slot(const Task& task) const;
  int take_gathered(const Task& task);
  double tokens() const;
  void set_balance();

  RankContext& context_;
  const StepGraph& graph_;
  const StageUnits& units_;
  StageStates& states_;
  StagePasses& passes_;
  RankGroups& groups_;
  int stage_;
  std::vector<EventId> events_;  // by task
  Numbers numbers_;
  StepResult result_;
  double* square_sum_;
  std::int64_t expert_layers_ = 0;  // of the model
  bool summed_ = false;
  Clock::time_point start_;
  Seconds in_optimizer_, in_offload_;  // of a step, with no calls of groups
  EventId sent_ = -1;
  int next_gradient_ = 0;
  /// Where the weights of a segment of a pass are.
  std::map<std::tuple<PassKey, int, Direction>, int> slots_;
  /// Where the whole gradients of a segment of a pass are.
  std::map<std::pair<PassKey, int>, int> gradient_slots_;
};

}  // namespace ztplan
