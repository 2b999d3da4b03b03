#include "strategy/layout.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

using namespace ztplan;

namespace {

ClusterSpec cluster_of(const std::vector<int>& fanouts) {
  ClusterSpec cluster;
  cluster.devices = 1;
  for (const int fanout : fanouts) {
    Level level;
    level.fanout = fanout;
    cluster.levels.push_back(level);
    cluster.devices *= fanout;
  }
  return cluster;
}

using Ranks = std::vector<int>;

// Every group, rank by rank: the definition, in place of the closed form.
std::vector<Ranks> groups_of(const Group& group, int devices) {
  std::vector<Ranks> all;
  const int row = group.chain > 0 ? group.chain : group.size;
  for (int first = 0; first < devices; ++first) {
    const int place = first / group.stride % row;  // of `first` in its row
    const bool starts =
        group.chain > 0 ? place + group.size <= row : place == 0;
    if (!starts) continue;
    Ranks members;
    for (int i = 0; i < group.size; ++i) {
      members.push_back(first + i * group.stride);
    }
    all.push_back(members);
  }
  return all;
}

int most_in_one_instance(const Ranks& members, int instance) {
  std::map<int, int> count;
  int most = 0;
  for (const int rank : members)
    most = std::max(most, ++count[rank / instance]);
  return most;
}

int instance_size(const ClusterSpec& cluster, std::size_t level) {
  int size = 1;
  for (std::size_t i = 0; i <= level; ++i) size *= cluster.levels[i].fanout;
  return size;
}

std::size_t enumerated_level(const Group& group, const ClusterSpec& cluster) {
  const auto groups = groups_of(group, cluster.devices);
  for (std::size_t level = 0;; ++level) {
    const int instance = instance_size(cluster, level);
    if (std::ranges::all_of(groups, [&](const Ranks& members) {
          return most_in_one_instance(members, instance) == group.size;
        })) {
      return level;
    }
  }
}

int enumerated_members(const Group& group, const ClusterSpec& cluster,
                       std::size_t level) {
  const int instance = instance_size(cluster, level);
  int most = 0;
  int least = group.size;
  for (const Ranks& members : groups_of(group, cluster.devices)) {
    const int here = most_in_one_instance(members, instance);
    most = std::max(most, here);
    least = std::min(least, here);
  }
  return group.chain > 0 ? least : most;
}

std::vector<Group> all_groups(const Strategy& s) {
  return {tensor_group(s),          context_group(s), gradient_group(s),
          shard_group(s),           replica_group(s), expert_group(s),
          expert_gradient_group(s), pipeline_pair(s)};
}

// A divisor of `left`, taken out of it.
int take(int& left, std::mt19937& random) {
  std::vector<int> divisors;
  for (int d = 1; d <= left; ++d) {
    if (left % d == 0) divisors.push_back(d);
  }
  const int taken = divisors[random() % divisors.size()];
  left /= taken;
  return taken;
}

int divisor(int whole, std::mt19937& random) { return take(whole, random); }

}  // namespace

TEST_CASE("ranks run through tensor, context, data, then pipeline") {
  const Strategy s =
      parse_strategy("tp=4,cp=2,dp=8,pp=16,ep=32,zero=1,shard=4", 0);
  CHECK(tensor_group(s) == Group{4, 1});
  CHECK(context_group(s) == Group{2, 4});
  CHECK(gradient_group(s) == Group{16, 4});
  CHECK(shard_group(s) == Group{4, 4});
  CHECK(replica_group(s) == Group{4, 16});
  CHECK(expert_group(s) == Group{32, 1});
  CHECK(expert_gradient_group(s) == Group{2, 32});
  CHECK(pipeline_pair(s) == Group{2, 64, 16});
}

// Megatron-LM, core/parallel_state.py: rank = etp + ETP (ep + EP edp).
TEST_CASE("ranks that share an expert are neighbours") {
  const Strategy s = parse_strategy("tp=4,dp=8,ep=4,etp=2", 0);
  CHECK(expert_tensor_group(s) == Group{2, 1});
  CHECK(expert_group(s) == Group{4, 2});
  CHECK(expert_cut_group(s) == Group{8, 1});
  CHECK(expert_gradient_group(s) == Group{4, 8});
}

TEST_CASE("without ZeRO every rank of the gradient group is a replica") {
  const Strategy s = parse_strategy("tp=4,cp=2,dp=8", 0);
  CHECK(shard_group(s).size == 1);
  CHECK(replica_group(s) == gradient_group(s));
}

TEST_CASE("a group spans the innermost level that holds it whole") {
  const ClusterSpec dgx = cluster_of({8, 128});
  CHECK(level_spanned(Group{8, 1}, dgx) == 0);
  CHECK(level_spanned(Group{16, 1}, dgx) == 1);
  CHECK(level_spanned(Group{2, 4}, dgx) == 0);
  CHECK(level_spanned(Group{2, 8}, dgx) == 1);
  CHECK(level_spanned(Group{1, 64}, dgx) == 0);
  CHECK(level_spanned(Group{6, 1}, dgx) == 1);  // ranks 6 to 11 straddle 8
}

TEST_CASE("neighbouring stages span what the worst placed pair spans") {
  const ClusterSpec dgx = cluster_of({8, 2});
  CHECK(level_spanned(pipeline_pair(parse_strategy("tp=4,pp=2", 0)), dgx) == 0);
  CHECK(level_spanned(pipeline_pair(parse_strategy("tp=4,pp=4", 0)), dgx) == 1);
  CHECK(level_spanned(pipeline_pair(parse_strategy("tp=8", 0)), dgx) == 0);
}

TEST_CASE("members within a node are those a ring finds there") {
  const ClusterSpec dgx = cluster_of({8, 4, 8});
  CHECK(members_within(Group{64, 4}, dgx, 0) == 2);
  CHECK(members_within(Group{64, 4}, dgx, 1) == 8);
  CHECK(members_within(Group{64, 4}, dgx, 2) == 64);
  CHECK(members_within(Group{16, 16}, dgx, 0) == 1);
  CHECK(members_within(Group{3, 3}, dgx, 0) == 3);
}

TEST_CASE("closed forms equal enumeration over random grids") {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::vector<int> fanouts(1 + random() % 4);
    for (int& fanout : fanouts) fanout = 1 + static_cast<int>(random() % 6);
    const ClusterSpec cluster = cluster_of(fanouts);
    int left = cluster.devices;
    Strategy s;
    s.tensor = take(left, random);
    s.context = take(left, random);
    s.data = take(left, random);
    s.pipeline = left;
    s.zero = 1;
    s.shard_group = divisor(s.context * s.data, random);
    s.expert = divisor(s.tensor * s.context * s.data, random);
    for (const Group& group : all_groups(s)) {
      CAPTURE(to_text(s));
      CAPTURE(group.size);
      CAPTURE(group.stride);
      REQUIRE(level_spanned(group, cluster) ==
              enumerated_level(group, cluster));
      for (std::size_t level = 0; level < fanouts.size(); ++level) {
        REQUIRE(members_within(group, cluster, level) ==
                enumerated_members(group, cluster, level));
      }
    }
  }
}
