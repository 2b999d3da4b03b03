#include "step/build_step.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "step/segment.h"
#include "step/state_work.h"
#include "strategy/schedule.h"

namespace ztplan {
namespace {

/// Recipe ids of one segment. Parts that the schedule does not run are -1.
struct SegmentIds {
  int forward, backward, inputs, weights;
  int gather, reduce, reduce_last;  // -1: nothing to do
  int fetch_host, fetch_nvme;       // shards of offloaded parameters; -1: none
};

/// Equal chunks share recipes.
struct CachedChunk {
  ChunkShape shape;
  int pieces;
  std::vector<SegmentIds> ids;
};

/// Tasks of one pass that other tasks wait for.
struct PassEnds {
  TaskId first = -1;  // waits for what comes from another stage
  TaskId sent = -1;   // after it, the neighbour may go on
};

bool makes_gradients(const Pass& pass) {
  return pass.part == PassPart::backward || pass.part == PassPart::weights;
}

struct PassRecipe {
  int recipe;
  TaskKind kind;
};

PassRecipe recipe_of(const SegmentIds& segment, PassPart part) {
  switch (part) {
    case PassPart::forward:
      return {segment.forward, TaskKind::forward};
    case PassPart::backward:
      return {segment.backward, TaskKind::backward};
    case PassPart::inputs:
      return {segment.inputs, TaskKind::input_gradients};
    case PassPart::weights:
      break;
  }
  return {segment.weights, TaskKind::weight_gradients};
}

class StepBuilder {
 public:
  StepBuilder(const StepParts& parts, const std::vector<StageShape>& shapes,
              int micro_batches)
      : parts_(parts),
        s_(parts.strategy),
        shapes_(shapes),
        micro_batches_(micro_batches),
        virtual_count_(s_.pipeline * s_.virtual_stages),
        beside_(reduces_beside(parts)),
        forward_(ends_count()),
        backward_(ends_count()) {}

  StepGraph build() &&;

 private:
  std::size_t ends_count() const {
    return static_cast<std::size_t>(virtual_count_) *
           static_cast<std::size_t>(micro_batches_);
  }
  std::size_t at(int virtual_stage, int micro_batch) const {
    return static_cast<std::size_t>(virtual_stage) *
               static_cast<std::size_t>(micro_batches_) +
           static_cast<std::size_t>(micro_batch);
  }

  int add_recipe(Recipe recipe);
  void add_backward(Recipe backward, SegmentIds& ids);
  SegmentIds add_segment(Segment segment);
  std::vector<SegmentIds> add_segments(std::vector<Segment> segments);
  const std::vector<SegmentIds>& segments(const ChunkShape& chunk, int pieces);
  int pieces(int stage, const Pass& pass) const;

  void build_stage(int stage);
  void run(int stage, const Pass& pass);
  PassEnds run_segments(int stage, const Pass& pass,
                        const std::vector<SegmentIds>& run_of);
  TaskId compute(int stage, const Pass& pass, const SegmentIds& segment,
                 TaskId gathered);
  TaskId gather(int stage, const Pass& pass, const SegmentIds& segment);
  void reduce(int stage, const Pass& pass, const SegmentIds& segment,
              TaskId computed);
  void reduce_after(int stage, const Pass& pass,
                    const std::vector<SegmentIds>& run_of, TaskId sent);
  TaskId send(int stage, const Pass& pass, TaskId computed);
  void join_stages();
  void join(std::vector<PassEnds>& ends, int from, int to);

  void sync_tied_embedding();
  void finish();
  void finish_on_device(int stage, TaskId norm);
  void finish_on_host(int stage, TaskId norm);
  void gather_updated(int stage, TaskId stepped);
  LayerShare stage_layers(int stage) const;

  /// Whether `pass` is the last to add to the gradients of its chunk.
  bool last_gradients(const Pass& pass) const {
    return makes_gradients(pass) && pass.micro_batch == micro_batches_ - 1;
  }
  bool reduces_always() const { return reduces_every_pass(parts_); }
  /// Layers and ends one by one: where they are gathered so, and under ZeRO in
  /// the executor, whose shards are a unit's.
  bool runs_by_unit() const {
    return s_.zero == 3 || (s_.zero > 0 && parts_.engine.executed);
  }
  TaskId add(int recipe, int stage, Lane lane, TaskKind kind, const Pass* pass,
             std::span<const TaskId> after);

  const StepParts& parts_;
  const Strategy& s_;
  const std::vector<StageShape>& shapes_;
  int micro_batches_;
  int virtual_count_;
  bool beside_;  // gradients are reduced beside backward
  StepGraph::Builder builder_;
  std::vector<CachedChunk> cache_;
  std::vector<PassEnds> forward_, backward_;  // [virtual stage, micro-batch]
  std::vector<std::vector<TaskId>> reduced_;  // by stage: what the norm needs
  int send_recipe_ = -1;
  int segment_ = 0, segments_ = 1;  // of the pass at hand, or of offload
  // The compute tasks before the current one of this stage: a gather reuses the
  // buffer of the unit before the last.
  std::array<TaskId, 2> before_{-1, -1};
  // The reductions before, -1 of units that have none: the executor has whole
  // gradients of two units.
  std::array<TaskId, 2> reduced_before_{-1, -1};
};

int StepBuilder::add_recipe(Recipe recipe) {
  return recipe.items.empty() ? -1 : builder_.add_recipe(std::move(recipe));
}

TaskId StepBuilder::add(int recipe, int stage, Lane lane, TaskKind kind,
                        const Pass* pass, std::span<const TaskId> after) {
  Task task;
  task.recipe = recipe;
  task.stage = stage;
  task.lane = lane;
  task.kind = kind;
  task.segment = segment_;
  task.segments = segments_;
  if (pass != nullptr) {
    task.micro_batch = pass->micro_batch;
    task.chunk = pass->chunk;
    task.direction = pass->part == PassPart::forward ? Direction::forward
                                                     : Direction::backward;
  }
  return builder_.add(task, after);
}

void StepBuilder::add_backward(Recipe backward, SegmentIds& ids) {
  ids.backward = ids.inputs = ids.weights = -1;
  const bool splits = splits_backward(s_.schedule);
  SplitBackward split = split_backward(backward);
  if (!splits || s_.schedule == Schedule::dualpipe_v)
    ids.backward = builder_.add_recipe(std::move(backward));
  if (!splits) return;
  ids.inputs = builder_.add_recipe(std::move(split.inputs));
  ids.weights = builder_.add_recipe(std::move(split.weights));
}

SegmentIds StepBuilder::add_segment(Segment segment) {
  const Workload& w = parts_.setting.workload;
  const bool gathers =
      shards_weights(w, parts_.engine, s_) && shard_group(s_).size > 1;
  segment.forward.beside_gathers = segment.backward.beside_gathers = gathers;
  SegmentIds ids{};
  ids.forward = builder_.add_recipe(std::move(segment.forward));
  add_backward(std::move(segment.backward), ids);
  ids.reduce = add_recipe(reduce_gradients(parts_, segment, Boundary::inner));
  ids.reduce_last =
      add_recipe(reduce_gradients(parts_, segment, Boundary::last));
  ids.gather = ids.fetch_host = ids.fetch_nvme = -1;
  if (!shards_weights(w, parts_.engine, s_)) return ids;
  ids.gather = add_recipe(gather_parameters(parts_, segment));
  const Bytes owned = stored_bytes(w, owned_weights(s_, segment.share));
  if (s_.offload.parameters != OffloadTier::none)
    ids.fetch_host = add_recipe(copy(Channel::host_to_device, owned));
  if (s_.offload.parameters == OffloadTier::nvme)
    ids.fetch_nvme = add_recipe(copy(Channel::nvme_read, owned));
  return ids;
}

std::vector<SegmentIds> StepBuilder::add_segments(
    std::vector<Segment> segments) {
  std::vector<SegmentIds> ids;
  ids.reserve(segments.size());
  for (Segment& segment : segments)
    ids.push_back(add_segment(std::move(segment)));
  return ids;
}

/// Recipes of a chunk for ordinary passes, and for the last backward.
const std::vector<SegmentIds>& StepBuilder::segments(const ChunkShape& chunk,
                                                     int pieces) {
  for (const CachedChunk& cached : cache_)
    if (cached.shape == chunk && cached.pieces == pieces) return cached.ids;
  std::vector<Segment> cut = runs_by_unit() ? cut_units(parts_, chunk)
                                            : cut_chunk(parts_, chunk, pieces);
  cache_.push_back({chunk, pieces, add_segments(std::move(cut))});
  return cache_.back().ids;
}

/// Other stages than the first reduce in one piece while the pipeline drains.
int StepBuilder::pieces(int stage, const Pass& pass) const {
  if (!last_gradients(pass) || stage > 0 || runs_by_unit()) return 1;
  return gradient_pieces(parts_, stage_layers(stage));
}

LayerShare StepBuilder::stage_layers(int stage) const {
  return stage_share(parts_.setting, parts_.sizes,
                     shapes_[static_cast<std::size_t>(stage)])
      .all;
}

TaskId StepBuilder::gather(int stage, const Pass& pass,
                           const SegmentIds& segment) {
  if (segment.gather < 0 && segment.fetch_host < 0) return -1;
  const bool is_first = pass.part == PassPart::forward && pass.micro_batch == 0;
  if (!is_first && keeps_stage_whole(parts_.engine, s_)) return -1;
  TaskId ready = before_[0];
  if (segment.fetch_nvme >= 0)
    ready = add(segment.fetch_nvme, stage, Lane::nvme, TaskKind::transfer,
                &pass, std::array{ready});
  if (segment.fetch_host >= 0)
    ready = add(segment.fetch_host, stage, Lane::to_device, TaskKind::transfer,
                &pass, std::array{ready});
  if (segment.gather >= 0)
    ready = add(segment.gather, stage, Lane::data, TaskKind::gather, &pass,
                std::array{ready});
  return ready;
}

TaskId StepBuilder::compute(int stage, const Pass& pass,
                            const SegmentIds& segment, TaskId gathered) {
  const auto [recipe, kind] = recipe_of(segment, pass.part);
  const TaskId task = add(
      recipe, stage, Lane::compute, kind, &pass,
      std::array{gathered, makes_gradients(pass) ? reduced_before_[0] : -1});
  before_ = {before_[1], task};
  return task;
}

void StepBuilder::reduce(int stage, const Pass& pass, const SegmentIds& segment,
                         TaskId computed) {
  auto& done = reduced_[static_cast<std::size_t>(stage)];
  const bool last = last_gradients(pass);
  const int recipe = last ? segment.reduce_last : segment.reduce;
  const bool by_turns = parts_.engine.executed && reduces_always();
  if (by_turns) reduced_before_ = {reduced_before_[1], -1};
  if (recipe < 0 || (!last && !reduces_always())) {
    if (last) done.push_back(computed);
    return;
  }
  const Lane lane = beside_ ? Lane::data : Lane::compute;
  const TaskId task =
      add(recipe, stage, lane, TaskKind::reduce, &pass, std::array{computed});
  if (by_turns) reduced_before_[1] = task;
  if (last) done.push_back(task);
}

/// What is not reduced beside backward is reduced once the neighbour has its
/// gradient: Megatron-LM core/distributed/finalize_model_grads.py.
void StepBuilder::reduce_after(int stage, const Pass& pass,
                               const std::vector<SegmentIds>& run_of,
                               TaskId sent) {
  for (std::size_t i = run_of.size(); i-- > 0;) {
    segment_ = static_cast<int>(i);
    reduce(stage, pass, run_of[i], sent);
  }
}

/// Boundary activations or their gradients, to the next stage in the pass's
/// direction; nothing where a V turns.
TaskId StepBuilder::send(int stage, const Pass& pass, TaskId computed) {
  const int u = virtual_stage(s_, stage, pass.chunk);
  const bool forward = pass.part == PassPart::forward;
  if (send_recipe_ < 0 || u == (forward ? virtual_count_ - 1 : 0) ||
      stage_of(s_, forward ? u + 1 : u - 1) == stage)
    return computed;
  return add(send_recipe_, stage,
             sends_beside(s_.schedule) ? Lane::pipeline : Lane::compute,
             TaskKind::send, &pass, std::array{computed});
}

/// Weight gradients need no weights: nothing is gathered for them.
PassEnds StepBuilder::run_segments(int stage, const Pass& pass,
                                   const std::vector<SegmentIds>& run_of) {
  const bool forward = pass.part == PassPart::forward;
  const std::size_t count = run_of.size();
  PassEnds ends;
  segments_ = static_cast<int>(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = forward ? i : count - 1 - i;
    segment_ = static_cast<int>(at);
    const SegmentIds& segment = run_of[at];
    const TaskId gathered =
        pass.part == PassPart::weights ? -1 : gather(stage, pass, segment);
    ends.sent = compute(stage, pass, segment, gathered);
    if (ends.first < 0) ends.first = ends.sent;
    builder_.mark(ends.sent, i == 0, i + 1 == count);
    if (makes_gradients(pass) && beside_)
      reduce(stage, pass, segment, ends.sent);
  }
  return ends;
}

void StepBuilder::run(int stage, const Pass& pass) {
  const ChunkShape& chunk = shapes_[static_cast<std::size_t>(stage)]
                                .chunks[static_cast<std::size_t>(pass.chunk)];
  const std::vector<SegmentIds>& run_of = segments(chunk, pieces(stage, pass));
  PassEnds ends = run_segments(stage, pass, run_of);
  if (pass.part != PassPart::weights) ends.sent = send(stage, pass, ends.sent);
  if (makes_gradients(pass) && !beside_)
    reduce_after(stage, pass, run_of, ends.sent);
  if (pass.part == PassPart::weights) return;
  auto& table = pass.part == PassPart::forward ? forward_ : backward_;
  table[at(virtual_stage(s_, stage, pass.chunk), pass.micro_batch)] = ends;
}

void StepBuilder::build_stage(int stage) {
  before_ = reduced_before_ = {-1, -1};
  for (const Pass& pass : schedule(s_, stage, micro_batches_)) run(stage, pass);
}

void StepBuilder::join(std::vector<PassEnds>& ends, int from, int to) {
  for (int i = 0; i < micro_batches_; ++i)
    builder_.wait(ends[at(to, i)].first, ends[at(from, i)].sent);
}

void StepBuilder::join_stages() {
  for (int u = 1; u < virtual_count_; ++u) {
    join(forward_, u - 1, u);
    join(backward_, u, u - 1);
  }
}

/// A tied head trains a copy of the embedding on the last stage: both stages
/// sum their gradients. Source: Megatron-LM core/distributed/
/// finalize_model_grads.py, _allreduce_word_embedding_grads.
void StepBuilder::sync_tied_embedding() {
  const ModelSpec& model = parts_.setting.model;
  if (!model.tied || !ends_apart(s_)) return;
  const std::int64_t table =
      divide_up(parts_.sizes.vocab, s_.tensor) * model.hidden;
  // The executor's shards of both copies are of equal elements.
  const std::int64_t summed =
      parts_.engine.executed ? padded_shard(table, zero_group(s_)) : table;
  Recipe recipe;
  recipe.name = "sum tied embedding gradients";
  const int last = s_.pipeline - 1;
  recipe.items.push_back(
      {TimeTerm::data_comm, 1,
       Collective{CollectiveOp::all_reduce,
                  Group{2, last * pipeline_pair(s_).stride},
                  gradient_bytes(parts_.setting.workload, summed)}});
  const int id = builder_.add_recipe(std::move(recipe));
  std::vector<TaskId> after = reduced_.front();
  after.insert(after.end(), reduced_.back().begin(), reduced_.back().end());
  for (const int stage : {0, last})
    reduced_[static_cast<std::size_t>(stage)] = {
        add(id, stage, Lane::data, TaskKind::reduce, nullptr, after)};
}

void StepBuilder::gather_updated(int stage, TaskId stepped) {
  if (s_.zero == 0 || s_.zero == 3) return;
  const int recipe = add_recipe(gather_updates(
      parts_,
      updated_together(parts_, shapes_[static_cast<std::size_t>(stage)])));
  if (recipe >= 0)
    add(recipe, stage, Lane::data, TaskKind::gather, nullptr,
        std::array{stepped});
}

void StepBuilder::finish_on_device(int stage, TaskId norm) {
  const std::int64_t owned = owned_parameters(s_, stage_layers(stage));
  const int recipe = add_recipe(step_optimizer(parts_, owned));
  gather_updated(stage, add(recipe, stage, Lane::compute, TaskKind::optimizer,
                            nullptr, std::array{norm}));
}

/// Gradient shards go to the host, Adam runs there slice by slice between
/// reads and writes of what lies on NVMe, and updated weights come back.
void StepBuilder::finish_on_host(int stage, TaskId norm) {
  const Workload& w = parts_.setting.workload;
  const std::int64_t slice =
      divide_up(owned_parameters(s_, stage_layers(stage)), kOffloadSlices);
  const bool nvme = s_.offload.optimizer == OffloadTier::nvme;
  const int out =
      add_recipe(copy(Channel::device_to_host, gradient_bytes(w, slice)));
  const auto swap = [&](Channel channel) {
    return nvme ? add_recipe(copy(channel, optimizer_bytes(parts_, slice)))
                : -1;
  };
  const int read = swap(Channel::nvme_read);
  const int write = swap(Channel::nvme_write);
  const int adam = add_recipe(step_on_host(slice));
  const int back =
      add_recipe(copy(Channel::host_to_device, parameter_bytes(w, slice)));
  TaskId last = norm;
  segment_ = 0;
  segments_ = kOffloadSlices;
  const auto move = [&](int recipe, Lane lane, TaskId after) {
    return add(recipe, stage, lane, TaskKind::transfer, nullptr,
               std::array{after});
  };
  // The drive reads one slice ahead of the one that is written.
  TaskId fetched = nvme ? move(read, Lane::nvme, norm) : -1;
  for (int i = 0; i < kOffloadSlices; ++i) {
    segment_ = i;
    const TaskId copied = move(out, Lane::to_host, norm);
    last = add(adam, stage, Lane::host, TaskKind::optimizer, nullptr,
               std::array{copied, fetched});
    const TaskId stepped = last;
    if (nvme && i + 1 < kOffloadSlices) {
      segment_ = i + 1;
      fetched = move(read, Lane::nvme, norm);
      segment_ = i;
    }
    if (nvme) move(write, Lane::nvme, stepped);
    if (s_.offload.parameters == OffloadTier::none)
      last = move(back, Lane::to_device, stepped);
  }
  gather_updated(stage, last);
}

void StepBuilder::finish() {
  sync_tied_embedding();
  std::vector<TaskId> norms;
  for (int stage = 0; stage < s_.pipeline; ++stage) {
    const std::int64_t owned = owned_parameters(s_, stage_layers(stage));
    norms.push_back(add(add_recipe(norm_gradients(parts_, owned)), stage,
                        Lane::compute, TaskKind::norm, nullptr,
                        reduced_[static_cast<std::size_t>(stage)]));
  }
  const int sum = add_recipe(reduce_norm(parts_));
  TaskId norm = norms.front();
  if (sum >= 0) norm = add(sum, 0, Lane::data, TaskKind::norm, nullptr, norms);
  for (int stage = 0; stage < s_.pipeline; ++stage) {
    if (s_.offload.optimizer == OffloadTier::none)
      finish_on_device(stage, norm);
    else
      finish_on_host(stage, norm);
  }
}

StepGraph StepBuilder::build() && {
  reduced_.resize(static_cast<std::size_t>(s_.pipeline));
  if (s_.pipeline > 1)
    send_recipe_ = builder_.add_recipe(boundary_send(parts_));
  for (int stage = 0; stage < s_.pipeline; ++stage) build_stage(stage);
  join_stages();
  finish();
  return std::move(builder_).build();
}

}  // namespace

StepGraph build_step(const Setting& setting, const Engine& engine,
                     const Strategy& strategy, int micro_batches) {
  require(micro_batches >= 1, "a step has at least one micro-batch");
  const LayerKinds kinds = layer_kinds(setting.model);
  const StageSizes sizes = stage_sizes(setting, engine, kinds, strategy);
  const std::vector<StageShape> shapes = stage_shapes(kinds, strategy);
  const StepParts parts{setting, engine, strategy, kinds, sizes};
  return StepBuilder(parts, shapes, micro_batches).build();
}

}  // namespace ztplan
