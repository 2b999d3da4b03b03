#include <doctest/doctest.h>

#include "spec/catalog.h"
#include "spec/cluster.h"

using namespace ztplan;

TEST_CASE("part of a cluster keeps its inner levels") {
  const ClusterSpec all = load_cluster("dgx-h100", 64, {});
  const ClusterSpec half = first_devices(all, 32);
  CHECK(half.devices == 32);
  CHECK(half.devices_per_node == 8);
  CHECK(half.levels.front() == all.levels.front());
  CHECK(half.levels.back().fanout == 4);
  const ClusterSpec two = first_devices(all, 2);
  CHECK(two.devices_per_node == 2);
  CHECK(two.levels.front().fanout == 2);
  CHECK(two.levels.back().fanout == 1);
  CHECK_NOTHROW(validate(two));
  CHECK(first_devices(all, 64) == all);
}

TEST_CASE("counts double inside a node and from one node on") {
  CHECK(device_counts(load_cluster("dgx-h100", 48, {})) ==
        std::vector<int>{1, 2, 4, 8, 16, 32, 48});
  CHECK(device_counts(load_cluster("dgx-h100", 4, {})) ==
        std::vector<int>{1, 2, 4});
}
