#include "search/gpus.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "search/rank.h"

namespace ztplan {
namespace {

constexpr int kMostTried = 16384;

/// A strategy with fixed keys on `gpus` devices, when it is legal there.
std::optional<Plan> fixed_plan(const Question& question,
                               const std::string& keys, int gpus) {
  const Strategy strategy = parse_strategy(keys, gpus);
  if (devices(strategy) != gpus) return std::nullopt;
  const Engine* engine = engine_for(question, strategy);
  if (engine == nullptr) return std::nullopt;
  return evaluate(question, *engine, strategy);
}

std::optional<Plan> searched_plan(Question question) {
  question.top = 1;
  Ranking ranking = rank(question, {});
  if (!ranking.plans.empty()) return ranking.plans.front();
  return std::nullopt;
}

/// A batch that data parallelism divides: one micro-batch a rank at least.
Request for_count(const Request& request, const std::string& keys, int gpus) {
  Request own = request;
  own.gpus = gpus;
  if (keys.empty() || own.global_batch > 0 || own.batch_tokens > 0) return own;
  const Strategy s = parse_strategy(keys, gpus);
  own.global_batch = s.data * s.micro_batch;
  return own;
}

GpuCount try_count(const Request& request, const std::string& keys, int gpus) {
  GpuCount count;
  count.gpus = gpus;
  count.asked = ask(for_count(request, keys, gpus));
  const Question& question = count.asked.question;
  count.plan =
      keys.empty() ? searched_plan(question) : fixed_plan(question, keys, gpus);
  if (count.plan) count.fit = fit_of(question, *count.plan);
  return count;
}

bool is_held(const GpuCount& count) { return count.fit != Fit::does_not_fit; }
bool has_room(const GpuCount& count) { return count.fit == Fit::fits; }

/// The first count that `is_enough`, walking up; `below` gets the last before.
std::optional<GpuCount> first_count(const Request& request,
                                    const std::string& keys,
                                    const std::vector<int>& counts,
                                    bool (*is_enough)(const GpuCount&),
                                    std::optional<GpuCount>& below) {
  for (const int gpus : counts) {
    GpuCount count = try_count(request, keys, gpus);
    if (is_enough(count)) return count;
    if (count.plan) below = std::move(count);
  }
  return std::nullopt;
}

/// In whole nodes: the fewest themselves, or a count above.
std::optional<GpuCount> comfortable(const Request& request,
                                    const std::string& keys,
                                    const std::vector<int>& counts,
                                    int per_node, const GpuCount& fewest) {
  if (fewest.gpus % per_node == 0 && has_room(fewest)) return fewest;
  std::vector<int> more;
  for (const int gpus : counts)
    if (gpus > fewest.gpus && gpus % per_node == 0) more.push_back(gpus);
  std::optional<GpuCount> below;
  return first_count(request, keys, more, has_room, below);
}

std::string with_offload(const std::string& keys) {
  if (keys.find("offload=") != std::string::npos) return "";
  return keys + ",offload=cpu";
}

}  // namespace

std::vector<int> counts_to_try(int per_node, int most) {
  std::vector<int> counts;
  for (int gpus = 1; gpus < per_node; gpus *= 2)
    if (per_node % gpus == 0) counts.push_back(gpus);
  constexpr int kFewNodes = 8;
  for (int nodes = 1; nodes <= most / per_node;
       nodes = nodes < kFewNodes ? nodes + 1 : nodes + nodes / 4)
    counts.push_back(nodes * per_node);
  return counts;
}

GpuAnswer fewest_gpus(const Request& asked, const std::string& keys) {
  GpuAnswer answer;
  Request request = asked;
  request.gpus = 0;
  request.machine.nodes = 0;
  const Asked node = ask(request);
  request.given_model = node.question.model;  // read once
  answer.gpu = node.question.cluster.device.id;
  const int per_node = node.question.cluster.devices_per_node;
  const int most = asked.gpus > 0 ? asked.gpus : kMostTried;
  const std::vector<int> counts = counts_to_try(per_node, most);
  answer.fewest = first_count(request, keys, counts, is_held, answer.below);
  if (!answer.fewest) {
    answer.illegal = !keys.empty() && !answer.below;
    answer.problem =
        answer.illegal ? fmt::format(
                             "illegal on all counts up to {}; `ztplan explain` "
                             "names the rule",
                             most)
                       : fmt::format("nothing up to {} GPUs holds it", most);
    return answer;
  }
  answer.comfortable =
      comfortable(request, keys, counts, per_node, *answer.fewest);
  const std::string away = keys.empty() ? "" : with_offload(keys);
  std::optional<GpuCount> below;
  if (!away.empty())
    answer.offloaded = first_count(request, away, counts, is_held, below);
  return answer;
}

}  // namespace ztplan
