#include "exec/random.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

using namespace ztplan;

namespace {

std::vector<float> drawn(const NormalTensor& tensor, std::int64_t first,
                         std::size_t count) {
  std::vector<float> values(count);
  fill_normal(tensor, first, values);
  return values;
}

std::vector<std::int64_t> order(std::int64_t count, std::uint64_t seed,
                                std::int64_t epoch) {
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < count; ++i) {
    places.push_back(permute(i, count, seed, epoch));
  }
  return places;
}

}  // namespace

// Random123, tests/kat_vectors, the lines "philox4x32 10".
TEST_CASE("philox gives its published answers") {
  struct Row {
    PhiloxCounter counter;
    PhiloxKey key;
    PhiloxCounter answer;
  };
  constexpr std::uint32_t kOnes = 0xffffffff;
  const Row rows[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{kOnes, kOnes, kOnes, kOnes},
       {kOnes, kOnes},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  for (const Row& row : rows) CHECK(philox(row.counter, row.key) == row.answer);
}

// draft-eastlake-fnv-17, appendix C.
TEST_CASE("names hash as FNV-1a does") {
  CHECK(hash_name("") == 0xcbf29ce484222325);
  CHECK(hash_name("a") == 0xaf63dc4c8601ec8c);
  CHECK(hash_name("foobar") == 0x85944171f73967e8);
}

TEST_CASE("a normal is what Box and Muller say of the first block") {
  const auto uniform = [](std::uint32_t bits) {
    return (bits + 1.0) / 4294967296.0;
  };
  // hash_name("") split in words; seed and element 0.
  const PhiloxCounter bits = philox({0, 0, 0x84222325, 0xcbf29ce4}, {0, 0});
  const double radius = std::sqrt(-2 * std::log(uniform(bits[2])));
  const double angle = 2 * std::acos(-1.0) * uniform(bits[3]);
  const std::vector<float> values = drawn({"", 0, 0.5}, 0, 4);
  CHECK(values[2] == doctest::Approx(0.5 * radius * std::cos(angle)));
  CHECK(values[3] == doctest::Approx(0.5 * radius * std::sin(angle)));
}

TEST_CASE("any part of a tensor has the bits of the whole") {
  const NormalTensor tensor{"layers.0.mlp.up.weight", 7, 0.02};
  constexpr std::int64_t kRows = 6, kWidth = 10;
  const std::vector<float> whole = drawn(tensor, 0, kRows * kWidth);
  for (std::int64_t first = 0; first < kRows * kWidth; ++first) {
    CAPTURE(first);
    const std::vector<float> rest =
        drawn(tensor, first, whole.size() - static_cast<std::size_t>(first));
    CHECK(std::equal(rest.begin(), rest.end(), whole.begin() + first));
  }
  std::vector<float> part(6);
  fill_normal(tensor, Block{4, 2, 5, 3}, kWidth, part);
  for (std::size_t row = 0; row < 2; ++row) {
    for (std::size_t column = 0; column < 3; ++column) {
      CHECK(part[row * 3 + column] == whole[(row + 4) * kWidth + column + 5]);
    }
  }
}

TEST_CASE("moments and tails are those of a normal") {
  constexpr std::size_t kCount = 200'000;
  const std::vector<float> values = drawn({"head.weight", 1, 1}, 0, kCount);
  double sum = 0, squares = 0, cubes = 0, fourths = 0, beyond = 0;
  for (const double x : values) {
    sum += x;
    squares += x * x;
    cubes += x * x * x;
    fourths += x * x * x * x;
    beyond += std::abs(x) > 2 ? 1 : 0;
  }
  // Five standard errors: sqrt of 1, 2, 15, 96 over the count.
  const double error = 5 / std::sqrt(static_cast<double>(kCount));
  const auto mean = [&](double total) { return total / kCount; };
  CHECK(std::abs(mean(sum)) < error);
  CHECK(std::abs(mean(squares) - 1) < error * std::sqrt(2.0));
  CHECK(std::abs(mean(cubes)) < error * std::sqrt(15.0));
  CHECK(std::abs(mean(fourths) - 3) < error * std::sqrt(96.0));
  CHECK(std::abs(mean(beyond) - std::erfc(std::sqrt(2.0))) < error * 0.21);
}

TEST_CASE("another name, seed or place draws other numbers") {
  const std::vector<float> one = drawn({"a", 1, 1}, 0, 64);
  const auto none_equal = [&](const std::vector<float>& other) {
    return std::ranges::none_of(
        other, [&](float x) { return std::ranges::find(one, x) != one.end(); });
  };
  CHECK(none_equal(drawn({"b", 1, 1}, 0, 64)));
  CHECK(none_equal(drawn({"a", 2, 1}, 0, 64)));
  CHECK(none_equal(drawn({"a", std::uint64_t{1} << 32, 1}, 0, 64)));
  CHECK(none_equal(drawn({"a", 1, 1}, 64, 64)));
  CHECK(none_equal(drawn({"a", 1, 1}, std::int64_t{1} << 34, 64)));
}

TEST_CASE("an order visits every place once") {
  for (const std::int64_t count : {1, 2, 3, 4, 5, 16, 17, 100, 1024, 1025}) {
    CAPTURE(count);
    std::vector<std::int64_t> places = order(count, 3, 0);
    std::ranges::sort(places);
    std::vector<std::int64_t> all(places.size());
    std::iota(all.begin(), all.end(), std::int64_t{0});
    CHECK(places == all);
  }
}

TEST_CASE("epochs and seeds are ordered apart") {
  CHECK(order(100, 1, 0) == order(100, 1, 0));
  std::set<std::vector<std::int64_t>> orders;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
      orders.insert(order(100, seed, epoch));
    }
  }
  CHECK(orders.size() == 16);
}

TEST_CASE("every thing comes to every place equally often") {
  constexpr std::int64_t kCount = 10;
  constexpr int kSeeds = 10'000;
  std::vector<int> seen(kCount * kCount);
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::vector<std::int64_t> places = order(kCount, seed, 0);
    for (std::int64_t i = 0; i < kCount; ++i) {
      const std::int64_t place = places[static_cast<std::size_t>(i)];
      ++seen[static_cast<std::size_t>(i * kCount + place)];
    }
  }
  constexpr double kExpected = kSeeds / static_cast<double>(kCount);
  double chi_squared = 0;
  for (const int times : seen) {
    chi_squared += (times - kExpected) * (times - kExpected) / kExpected;
  }
  CHECK(chi_squared < 126.1);  // 81 degrees of freedom, p = 0.001
}
