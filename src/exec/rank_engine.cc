#include "exec/rank_engine.h"

#include <numeric>
#include <optional>

#include "base/error.h"
#include "exec/initialize.h"
#include "exec/positions.h"
#include "step/build_step.h"
#include "strategy/native_stage.h"

namespace ztplan {
namespace {

/// Makes groups of the world for one rank.
class GroupMaker {
 public:
  GroupMaker(Communicator& world, RankContext& context)
      : world_(world), context_(context) {}

  Peers peers(const Group& group, TimeTerm term) const {
    return {world_, group, term, context_.tally, context_.call_seconds};
  }
  Peers of_color(int color, TimeTerm term) const {
    return {world_, color, term, context_.tally, context_.call_seconds};
  }
  Holders holders(const Group& whole, int shards) const {
    const auto data = [&](const Group& group) {
      return peers(group, TimeTerm::data_comm);
    };
    return {data(whole), data({shards, whole.stride}),
            data({whole.size / shards, whole.stride * shards})};
  }
  RankGroups groups() const {
    const Strategy& s = context_.strategy;
    RankGroups groups;
    groups.world = peers({world_.size(), 1}, TimeTerm::data_comm);
    for (int chunk = 0; chunk < s.virtual_stages; ++chunk)
      groups.pipeline.push_back(
          peers({s.pipeline, s.tensor * s.context * s.data},
                TimeTerm::pipeline_comm));
    groups.dense = holders(gradient_group(s), zero_group(s));
    groups.experts = holders(expert_gradient_group(s),
                             static_cast<int>(expert_zero_group(s)));
    return groups;
  }

 private:
  Communicator& world_;
  RankContext& context_;
};

}  // namespace

struct RankEngine::Parts {
  Parts(Device& device, Communicator& world, const Setting& setting,
        const Engine& engine, const Strategy& strategy,
        const std::string& offload_folder)
      : context{device, setting.model, setting.workload, strategy},
        groups(GroupMaker(world, context).groups()),
        stage(world.rank() /
              (strategy.tensor * strategy.context * strategy.data)) {
    context.offload_folder = offload_folder;
    join(world);
    lay_positions();
    graph = build_step(setting, engine, strategy,
                       micro_batches(strategy, setting.workload));
    units = stage_units(context, engine, stage);
    states = std::make_unique<StageStates>(context, units, groups.dense,
                                           groups.experts);
    passes = std::make_unique<StagePasses>(
        context, units, *states, groups.pipeline,
        padded_vocab(engine, setting.model, strategy.tensor));
    runner = std::make_unique<StepRunner>(context, *graph, units, *states,
                                          *passes, groups, stage);
  }

  void join(Communicator& world) {
    const Strategy& s = context.strategy;
    const GroupMaker make(world, context);
    context.tensor = make.peers(tensor_group(s), TimeTerm::tensor_comm);
    context.context = make.peers(context_group(s), TimeTerm::context_comm);
    context.expert = make.peers(expert_group(s), TimeTerm::expert_comm);
    context.position = {context.tensor.rank(), context.expert.rank()};
    data_rank = groups.dense.whole.rank() / s.context;
    if (!context.model.tied || !ends_apart(s)) return;
    const bool is_end = stage == 0 || stage == s.pipeline - 1;
    const int stage_ranks = s.tensor * s.context * s.data;
    groups.tied = make.of_color(
        is_end ? world.rank() % stage_ranks : stage_ranks + world.rank(),
        TimeTerm::data_comm);
  }

  /// One block: of all tokens, of one sequence of each context rank, of a whole
  /// sequence.
  void lay_positions() {
    const Strategy& s = context.strategy;
    const int sequence = context.workload.sequence;
    own = context_positions(s, sequence, context.context.rank());
    const auto local = static_cast<std::int64_t>(own.size());
    const Bytes bytes = native_positions(context.workload, s);
    positions = context.device.allocate(Tier::device, Term::buffers, bytes);
    auto* at = reinterpret_cast<std::int32_t*>(positions);
    const auto put = [&](const std::vector<std::int32_t>& values) {
      const Indices to{at, static_cast<std::int64_t>(values.size())};
      context.device.copy(Lane::compute, reinterpret_cast<std::byte*>(at),
                          reinterpret_cast<const std::byte*>(values.data()),
                          Bytes{to.size * 4});
      context.device.synchronize();
      at += values.size();
      return to;
    };
    std::vector<std::int32_t> all;
    for (int i = 0; i < s.micro_batch; ++i)
      all.insert(all.end(), own.begin(), own.end());
    context.token_positions = put(all);
    context.own_positions = {context.token_positions.data, local};
    if (s.context == 1) return;
    if (s.context_kind == ContextKind::ring) {
      for (int rank = 0; rank < s.context; ++rank)
        context.ring_positions.push_back(
            put(context_positions(s, sequence, rank)));
      return;
    }
    std::vector<std::int32_t> whole(static_cast<std::size_t>(sequence));
    std::iota(whole.begin(), whole.end(), 0);
    context.whole_positions = put(whole);
  }

  ~Parts() { context.device.release(positions); }

  TokenBatch batch(const Windows& windows, std::int64_t step,
                   int micro_batch) const {
    const Strategy& s = context.strategy;
    const std::int64_t first =
        step * context.workload.global_batch +
        (std::int64_t{micro_batch} * s.data + data_rank) * s.micro_batch;
    TokenBatch batch;
    for (int i = 0; i < s.micro_batch; ++i) {
      const std::vector<std::int32_t> window = windows(first + i);
      for (const std::int32_t position : own) {
        const auto at = static_cast<std::size_t>(position);
        batch.tokens.push_back(window[at]);
        batch.targets.push_back(window[at + 1]);
      }
    }
    return batch;
  }

  RankContext context;
  RankGroups groups;
  int stage;
  int data_rank = 0;
  std::vector<std::int32_t> own;  // positions of this rank's tokens
  std::byte* positions = nullptr;
  std::optional<StepGraph> graph;
  StageUnits units;
  std::unique_ptr<StageStates> states;
  std::unique_ptr<StagePasses> passes;
  std::unique_ptr<StepRunner> runner;
};

RankEngine::RankEngine(Device& device, Communicator& world,
                       const Setting& setting, const Engine& engine,
                       const Strategy& strategy,
                       const std::string& offload_folder)
    : parts_(std::make_unique<Parts>(device, world, setting, engine, strategy,
                                     offload_folder)) {}

RankEngine::~RankEngine() = default;

void RankEngine::initialize(std::uint64_t seed) {
  initialize_weights(parts_->context, *parts_->states, seed);
  settle_weights();
}

void RankEngine::settle_weights() {
  parts_->states->settle_weights();
  parts_->states->gather_updates(Lane::compute);
  parts_->context.device.synchronize();
  parts_->context.tally = {};  // of steps
}

StepResult RankEngine::step(const Windows& windows, std::int64_t number,
                            const StepRunner::Numbers& numbers) {
  const Parts& p = *parts_;
  return p.runner->run(
      [&](int micro_batch) { return p.batch(windows, number, micro_batch); },
      numbers);
}

const StageUnits& RankEngine::units() const { return parts_->units; }
StageStates& RankEngine::states() const { return *parts_->states; }
const RankContext& RankEngine::context() const { return parts_->context; }
int RankEngine::stage() const { return parts_->stage; }

}  // namespace ztplan
