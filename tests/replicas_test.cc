#include "support/replicas.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <span>

using namespace ztplan;

namespace {

/// A vector of six elements in two shards.
FlatState six() {
  FlatState flat;
  flat.flat.parameters.push_back(
      {.name = "norm.weight", .rows = 1, .columns = 6, .local_columns = 6});
  flat.flat.size = flat.padded = 6;
  flat.shard = 3;
  return flat;
}

Array array(std::span<float> values) {
  return {reinterpret_cast<std::byte*>(values.data()),
          static_cast<std::int64_t>(values.size()), Precision::fp32};
}

}  // namespace

TEST_CASE("replicas: one bit of difference is told") {
  const FlatState flat = six();
  std::array<float, 6> first{1, 2, 3, 4, 5, 6}, other = first;
  Replicas replicas;
  replicas.hold(flat, array(std::span(first).first(3)), 0, false);
  CHECK(replicas.compared() == 0);
  replicas.hold(flat, array(std::span(other).last(3)), 1, false);
  CHECK(replicas.compared() == 6);
  CHECK(replicas.differing().empty());
  other[0] = std::nextafter(1.0F, 2.0F);
  replicas.hold(flat, array(std::span(other).last(3)), 1, false);
  CHECK(replicas.differing() == std::vector<std::string>{"norm.weight"});
}

TEST_CASE("replicas: shards that share nothing are not compared") {
  const FlatState flat = six();
  std::array<float, 3> first{1, 2, 3}, second{4, 5, 6};
  Replicas replicas;
  replicas.hold(flat, array(first), 0, true);
  replicas.hold(flat, array(second), 1, true);
  CHECK(replicas.compared() == 0);
  CHECK(replicas.differing().empty());
}
