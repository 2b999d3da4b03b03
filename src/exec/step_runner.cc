#include "exec/step_runner.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace ztplan {
namespace {

/// What one rank adds to the step's sums, as they lie on the device.
struct Sums {
  double loss = 0, squares = 0, balance = 0;
};
static_assert(sizeof(Sums) == 3 * sizeof(double));

Sums fetch(Device& device, const double* sums) {
  Sums here;
  device.copy(Lane::compute, reinterpret_cast<std::byte*>(&here),
              reinterpret_cast<const std::byte*>(sums), Bytes{sizeof(Sums)});
  device.synchronize();
  return here;
}

/// Added up in the order of ranks: their bits travel, nothing else computes.
Sums sum_over(Device& device, const Peers& peers, const Sums& mine) {
  constexpr std::int64_t kWords = sizeof(Sums) / sizeof(float);
  std::vector<Sums> all(static_cast<std::size_t>(peers.size()));
  all[static_cast<std::size_t>(peers.rank())] = mine;
  const Array whole{reinterpret_cast<std::byte*>(all.data()),
                    kWords * peers.size(), Precision::fp32};
  peers.all_gather(Lane::data, slice(whole, kWords * peers.rank(), kWords),
                   whole);
  device.synchronize();
  Sums sum;
  for (const Sums& each : all) {
    sum.loss += each.loss;
    sum.squares += each.squares;
    sum.balance += each.balance;
  }
  return sum;
}

/// What is no number has no sign to print.
double plain(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

}  // namespace

StepRunner::StepRunner(RankContext& context, const StepGraph& graph,
                       const StageUnits& units, StageStates& states,
                       StagePasses& passes, RankGroups& groups, int stage)
    : context_(context),
      graph_(graph),
      units_(units),
      states_(states),
      passes_(passes),
      groups_(groups),
      stage_(stage),
      events_(graph.tasks().size(), -1),
      square_sum_(passes.total_loss() + 1) {
  for (const LayerGroup& group : context.model.layers)
    if (group.layer.ffn.is_moe()) expert_layers_ += group.count;
  lay_slots();
}

/// The sum of norms is one task of the graph and every rank's.
bool StepRunner::is_mine(const Task& task) const {
  const bool is_every_ones =
      task.kind == TaskKind::norm && task.lane == Lane::data;
  return task.stage == stage_ || is_every_ones;
}

const std::vector<Unit>& StepRunner::chunk(const Task& task) const {
  return units_.chunks[static_cast<std::size_t>(task.chunk)];
}

/// Units of the task's segment, the first and one past the last. A chunk that
/// is not cut into units is cut into runs of layers as even as can be, the ends
/// with the first and the last.
std::pair<std::size_t, std::size_t> StepRunner::units_of(
    const Task& task) const {
  const std::vector<Unit>& all = chunk(task);
  const auto segment = static_cast<std::size_t>(task.segment);
  const auto segments = static_cast<std::size_t>(task.segments);
  if (context_.strategy.zero > 0) return {segment, segment + 1};
  const std::size_t before = all.front().kind == UnitKind::embedding ? 1 : 0;
  const std::size_t after = all.back().kind == UnitKind::head ? 1 : 0;
  const std::size_t layers = all.size() - before - after;
  const std::size_t from = before + layers * segment / segments;
  const std::size_t until = before + layers * (segment + 1) / segments;
  return {segment == 0 ? 0 : from,
          segment + 1 == segments ? all.size() : until};
}

/// What was sent last lies where this pass will write.
void StepRunner::begin_pass() {
  if (sent_ >= 0) context_.device.wait(Lane::compute, sent_);
}

/// Units take turns with the slots in the order they are computed with, whether
/// or not their weights have a way to come: tasks of other lanes may be issued
/// before or after, and groups of one have none.
void StepRunner::lay_slots() {
  if (context_.strategy.zero < 3) return;
  int next = 0;
  for (const TaskId id : graph_.order()) {
    const Task& task = graph_.tasks()[static_cast<std::size_t>(id)];
    const bool computes =
        task.kind == TaskKind::forward || task.kind == TaskKind::backward;
    if (is_mine(task) && computes)
      slots_[{{task.chunk, task.micro_batch}, task.segment, task.direction}] =
          next++ % kUnitSlots;
  }
}

/// Of the weights of the task's unit, in its pass.
int StepRunner::slot(const Task& task) const {
  if (context_.strategy.zero < 3) return 0;
  return slots_.at(
      {{task.chunk, task.micro_batch}, task.segment, task.direction});
}

/// The slot of the unit's weights; they are put there now, where the graph has
/// no task for it: groups of one gather nothing.
int StepRunner::take_gathered(const Task& task) {
  const int taken = slot(task);
  const Unit& unit = chunk(task)[units_of(task).first];
  const bool fetched =
      context_.strategy.offload.parameters != OffloadTier::none;
  if (context_.strategy.zero == 3 && !fetched && !is_gathered(unit))
    states_.gather(Lane::compute, unit, taken);
  return taken;
}

bool StepRunner::is_gathered(const Unit& unit) const {
  return std::ranges::any_of(unit.flats, [&](const FlatState& flat) {
    return states_.holders(flat).shards.size() > 1;
  });
}

void StepRunner::forward(const Task& task) {
  const PassKey key{task.chunk, task.micro_batch};
  if (task.opens) begin_pass();
  if (task.opens) passes_.open_forward(key);
  const auto [from, until] = units_of(task);
  const int weights_slot = take_gathered(task);
  for (std::size_t unit = from; unit < until; ++unit)
    passes_.forward(key, unit, weights_slot);
}

void StepRunner::backward(const Task& task) {
  const PassKey key{task.chunk, task.micro_batch};
  if (task.opens) begin_pass();
  if (task.opens) passes_.open_backward(key);
  const auto [from, until] = units_of(task);
  const int weights_slot = take_gathered(task);
  int whole_slot = 0;
  if (context_.strategy.zero >= 2) {
    whole_slot = next_gradient_++ % kUnitSlots;
    gradient_slots_[{key, task.segment}] = whole_slot;
    states_.open_gradients(Lane::compute, chunk(task)[from], whole_slot);
  }
  for (std::size_t unit = until; unit-- > from;)
    passes_.backward(key, unit, weights_slot, whole_slot);
  if (is_last(task) || context_.strategy.zero >= 2)
    for (std::size_t unit = from; unit < until; ++unit)
      states_.sum_over_tensor(chunk(task)[unit], whole_slot);
  if (context_.strategy.zero >= 2 && !is_reduced(chunk(task)[from]))
    states_.reduce(Lane::compute, chunk(task)[from], whole_slot, is_last(task));
  if (task.closes) passes_.close_backward(key);
}

/// Gradients of weights have their place from the first pass on: ZeRO 2, which
/// opens it with backward, runs backward whole.
void StepRunner::backward_inputs(const Task& task) {
  const PassKey key{task.chunk, task.micro_batch};
  if (task.opens) begin_pass();
  if (task.opens) passes_.open_backward(key);
  const auto [from, until] = units_of(task);
  for (std::size_t unit = until; unit-- > from;)
    passes_.backward(key, unit, 0, 0);
}

void StepRunner::backward_weights(const Task& task) {
  const PassKey key{task.chunk, task.micro_batch};
  const auto [from, until] = units_of(task);
  for (std::size_t unit = until; unit-- > from;)
    passes_.backward_weights(key, unit, 0);
  if (is_last(task))
    for (std::size_t unit = from; unit < until; ++unit)
      states_.sum_over_tensor(chunk(task)[unit], 0);
  if (task.closes) passes_.close_backward(key);
}

/// Whether the graph has a task that reduces the unit's gradients: where ranks
/// have anything to sum.
bool StepRunner::is_reduced(const Unit& unit) const {
  const bool sums = context_.strategy.sequence_parallel;
  return std::ranges::any_of(unit.flats, [&](const FlatState& flat) {
    return states_.holders(flat).shards.size() > 1 ||
           (sums && flat.flat.whole > 0);
  });
}

bool StepRunner::is_last(const Task& task) const {
  return task.micro_batch + 1 ==
         micro_batches(context_.strategy, context_.workload);
}

void StepRunner::gather(const Task& task) {
  if (task.micro_batch < 0) return states_.gather_updates(task.lane);
  const auto [from, until] = units_of(task);
  require(until == from + 1, "units are gathered one by one");
  states_.gather(task.lane, chunk(task)[from], slot(task));
}

void StepRunner::reduce(const Task& task) {
  if (task.micro_batch < 0) {
    const Unit& unit = stage_ == 0 ? units_.chunks.front().front()
                                   : units_.chunks.back().back();
    const FlatState& table =
        stage_ == 0 ? unit.flats.front() : unit.flats.back();
    return groups_.tied.all_reduce(task.lane, states_.shard_of(table).gradients,
                                   Reduction::sum);
  }
  const auto [from, until] = units_of(task);
  if (context_.strategy.zero == 0)
    return states_.reduce_whole(
        task.lane, std::span(chunk(task)).subspan(from, until - from));
  const PassKey key{task.chunk, task.micro_batch};
  const int whole_slot =
      context_.strategy.zero >= 2 ? gradient_slots_.at({key, task.segment}) : 0;
  states_.reduce(task.lane, chunk(task)[from], whole_slot, is_last(task));
}

/// Sums losses, squares and balance losses over all ranks.
void StepRunner::sum_norms() {
  Sums mine = fetch(context_.device, passes_.total_loss());
  if (context_.position.tensor > 0) mine.loss = 0;  // as on tensor rank 0
  const Sums sum = sum_over(context_.device, groups_.world, mine);
  result_.loss = plain(sum.loss / tokens());
  result_.gradient_norm =
      static_cast<float>(plain(std::sqrt(sum.squares) / numbers_.loss_scale));
  if (expert_layers_ > 0) result_.balance = plain(sum.balance);
  result_.skipped = !std::isfinite(sum.squares);
  summed_ = true;
}

double StepRunner::tokens() const {
  return static_cast<double>(context_.workload.global_batch) *
         context_.workload.sequence;
}

/// What a copy between tiers is of: a slice of states, or a unit's weights.
void StepRunner::transfer(const Task& task) {
  const auto& item =
      graph_.recipes()[static_cast<std::size_t>(task.recipe)].items.front();
  const Channel channel = std::get<Transfer>(item.work).channel;
  if (task.micro_batch >= 0) return bring(task, channel);
  if (!summed_) sum_norms();
  if (result_.skipped) return;
  switch (channel) {
    case Channel::device_to_host:
      return states_.fetch_gradients(task.lane, task.segment);
    case Channel::nvme_read:
      return states_.load_slice(task.lane, task.segment);
    case Channel::nvme_write:
      return states_.store_slice(task.lane, task.segment);
    case Channel::host_to_device:
      return states_.return_weights(task.lane, task.segment);
  }
}

void StepRunner::bring(const Task& task, Channel channel) {
  const auto [from, until] = units_of(task);
  require(until == from + 1, "units are fetched one by one");
  const Unit& unit = chunk(task)[from];
  if (channel == Channel::nvme_read)
    states_.load_weights(task.lane, unit, slot(task));
  else
    states_.fetch_weights(task.lane, unit, slot(task));
}

void StepRunner::step(const Task& task) {
  if (!summed_) sum_norms();  // a world of one has no task for it
  if (result_.skipped) return;
  StepNumbers numbers = numbers_.step;
  numbers.factor = 1 / numbers_.loss_scale;
  const auto norm = static_cast<float>(result_.gradient_norm);
  if (numbers_.clip > 0 && norm > numbers_.clip)
    numbers.factor *= numbers_.clip / norm;
  if (task.lane == Lane::host)
    states_.step_slice(task.lane, task.segment, numbers);
  else
    states_.step(task.lane, numbers);
}

void StepRunner::perform(const Task& task) {
  const PassKey key{task.chunk, task.micro_batch};
  switch (task.kind) {
    case TaskKind::forward:
      return forward(task);
    case TaskKind::backward:
      return backward(task);
    case TaskKind::gather:
      return gather(task);
    case TaskKind::reduce:
      return reduce(task);
    case TaskKind::norm:
      if (task.lane == Lane::data) return sum_norms();
      return states_.square_sum(Lane::compute, stage_ == 0, square_sum_);
    case TaskKind::optimizer:
      return step(task);
    case TaskKind::transfer:
      return transfer(task);
    case TaskKind::input_gradients:
      return backward_inputs(task);
    case TaskKind::weight_gradients:
      return backward_weights(task);
    case TaskKind::send:
      break;
  }
  if (task.direction == Direction::forward)
    passes_.send_forward(task.lane, key);
  else
    passes_.send_backward(task.lane, key);
  sent_ = context_.device.record(task.lane);
}

void StepRunner::set_balance() {
  const int passes = micro_batches(context_.strategy, context_.workload) *
                     context_.strategy.data;
  context_.balance =
      numbers_.balance * numbers_.loss_scale / static_cast<float>(passes);
  context_.balance_sum = square_sum_ + 1;
  if (expert_layers_ > 0)
    context_.balance_share = 1 / static_cast<double>(passes * expert_layers_);
}

StepResult StepRunner::run(const TokenFeed& feed, const Numbers& numbers) {
  numbers_ = numbers;
  result_ = {};
  Device& device = context_.device;
  summed_ = false;
  gradient_slots_.clear();
  set_balance();
  passes_.begin_step(feed, static_cast<float>(numbers.loss_scale / tokens()));
  states_.zero_gradients(Lane::compute);
  context_.call_seconds = {};
  in_optimizer_ = in_offload_ = {};
  result_.spans.assign(graph_.tasks().size(), {});
  start_ = Clock::now();
  run_tasks();
  device.synchronize();
  settle_terms(now());
  return result_;
}

Seconds StepRunner::now() const {
  return {std::chrono::duration<double>(Clock::now() - start_).count()};
}

Seconds StepRunner::in_calls() const {
  Seconds sum;
  for (const Seconds term : context_.call_seconds) sum += term;
  return sum;
}

void StepRunner::run_tasks() {
  for (const TaskId id : graph_.order()) {
    const Task& task = graph_.tasks()[static_cast<std::size_t>(id)];
    if (!is_mine(task)) continue;
    for (const TaskId before : graph_.predecessors(id)) {
      const Task& other = graph_.tasks()[static_cast<std::size_t>(before)];
      const EventId event = events_[static_cast<std::size_t>(before)];
      if (is_mine(other) && other.lane != task.lane && event >= 0)
        context_.device.wait(task.lane, event);
    }
    const Seconds start = now(), calls = in_calls();
    perform(task);
    events_[static_cast<std::size_t>(id)] = context_.device.record(task.lane);
    const Seconds end = now();
    result_.spans[static_cast<std::size_t>(id)] = {start, end};
    const Seconds own = end - start - (in_calls() - calls);
    if (task.kind == TaskKind::norm || task.kind == TaskKind::optimizer)
      in_optimizer_ += own;
    if (task.kind == TaskKind::transfer) in_offload_ += own;
  }
}

void StepRunner::settle_terms(Seconds total) {
  result_.terms = context_.call_seconds;
  const auto at = [&](TimeTerm term) -> Seconds& {
    return result_.terms[static_cast<std::size_t>(term)];
  };
  at(TimeTerm::optimizer) += in_optimizer_;
  at(TimeTerm::offload) += in_offload_;
  at(TimeTerm::compute) += total - in_calls() - in_optimizer_ - in_offload_;
}

}  // namespace ztplan
