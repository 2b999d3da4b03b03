#include <doctest/doctest.h>

#include "support/tensors.h"

using namespace ztplan;

namespace {

constexpr std::int64_t kRows = 4, kColumns = 5, kFirst = 10;
// Of rows 10..13: two twice, one never, two of other ranks, one of nobody.
std::vector<std::int32_t> ids() { return {12, 10, 9, 12, 14, -1, 13, 10}; }
constexpr std::int64_t kTokens = 8;

Tensor filled(std::int64_t rows, Precision dtype, unsigned seed) {
  Tensor tensor(rows, kColumns, kColumns + 2, dtype);
  tensor.fill(seed);
  return tensor;
}

/// onto[i] += table[ids[i]], where the table has that row.
Doubles slow_gather(const Doubles& table, Doubles onto) {
  for (std::size_t i = 0; i < kTokens; ++i) {
    const std::int64_t row = ids()[i] - kFirst;
    if (row < 0 || row >= kRows) continue;
    for (std::size_t j = 0; j < kColumns; ++j) {
      onto[i * kColumns + j] +=
          table[static_cast<std::size_t>(row) * kColumns + j];
    }
  }
  return onto;
}

Doubles slow_table_gradient(const Doubles& of_out, const Doubles& before) {
  const Doubles zeros(kTokens * kColumns);
  Doubles sum = slopes(
      [&](const Doubles& table) {
        return dot(slow_gather(table, zeros), of_out);
      },
      Doubles(kRows * kColumns));
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += before[i];
  return sum;
}

}  // namespace

TEST_CASE("an embedding gathers the rows its table has") {
  std::vector<std::int32_t> tokens = ids();
  for (const Precision dtype :
       {Precision::fp32, Precision::bf16, Precision::fp16}) {
    Tensor table = filled(kRows, dtype, 1);
    Tensor out = filled(kTokens, dtype, 2);
    const auto embed = [&](bool accumulate) {
      run_on_cpu(kernels::Embed{{tokens.data(), kTokens},
                                kFirst,
                                table.matrix(),
                                out.matrix(),
                                accumulate});
    };
    embed(false);
    const Doubles once =
        slow_gather(table.values(), Doubles(kTokens * kColumns));
    CHECK(out.values() == once);
    embed(true);  // twice a value has the same digits
    CHECK(out.values() == slow_gather(table.values(), once));
    CHECK(out.gaps_untouched());
  }
}

TEST_CASE("an embedding's gradient adds up the rows of each id") {
  std::vector<std::int32_t> tokens = ids();
  struct Row {
    Precision dtype;
    double bound;
  };
  // Sums of three values stay below 4; each of two additions rounds by half a
  // last place: 2^-7 and 2^-10.
  for (const Row& row :
       {Row{Precision::fp32, 1e-6}, Row{Precision::bf16, 0x1p-6},
        Row{Precision::fp16, 0x1p-9}}) {
    Tensor of_out = filled(kTokens, row.dtype, 3);
    Tensor of_table = filled(kRows, row.dtype, 4);
    const Doubles expected =
        slow_table_gradient(of_out.values(), of_table.values());
    Tensor again = of_table;
    for (Tensor* to : {&of_table, &again}) {
      run_on_cpu(kernels::EmbedBackward{
          {tokens.data(), kTokens}, kFirst, of_out.matrix(), to->matrix()});
    }
    CHECK(distance(of_table.values(), expected) < row.bound);
    CHECK(of_table.bytes() == again.bytes());
    CHECK(of_table.gaps_untouched());
  }
}

TEST_CASE("rows of one id are added in the order of their tokens") {
  // In fp32 2^24 + 1 rounds back to 2^24: only in this order does 1 remain.
  std::vector<std::int32_t> tokens{0, 0, 0};
  Tensor of_out = zero_tensor(3, 1), table = zero_tensor(1, 1);
  of_out.set({0x1p24, -0x1p24, 1});
  run_on_cpu(kernels::EmbedBackward{
      {tokens.data(), 3}, 0, of_out.matrix(), table.matrix()});
  CHECK(table.values() == Doubles{1});
  of_out.set({0x1p24, 1, -0x1p24});
  table.set({0});
  run_on_cpu(kernels::EmbedBackward{
      {tokens.data(), 3}, 0, of_out.matrix(), table.matrix()});
  CHECK(table.values() == Doubles{0});
}
