#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "support/tensors.h"

using namespace ztplan;

namespace {

constexpr std::int64_t kTokens = 5;
const std::vector<std::int32_t> kTargets{3, -100, 0, 36, 17};

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

/// Cross-entropy of kTargets over the first `vocab` of `columns`, in double.
double slow_loss(const Doubles& logits, std::int64_t columns,
                 std::int64_t vocab) {
  double loss = 0;
  for (std::int64_t i = 0; i < kTokens; ++i) {
    const std::int32_t target = kTargets[at(i)];
    if (target < 0) continue;
    double sum = 0;
    for (std::int64_t j = 0; j < vocab; ++j) {
      sum += std::exp(logits[at(i * columns + j)]);
    }
    loss += std::log(sum) - logits[at(i * columns + target)];
  }
  return loss;
}

struct Result {
  double total = 0;
  Doubles gradient;
};

/// Loss and gradient over a vocabulary of `columns`, cut in `parts`.
Result cut_loss(Tensor& logits, std::int64_t columns, std::int64_t vocab,
                std::int64_t parts) {
  std::vector<std::int32_t> targets = kTargets;
  const Indices of_tokens{targets.data(), kTokens};
  const std::int64_t width = columns / parts;
  Tensor maximum = zero_tensor(1, kTokens), sum = maximum, target = maximum;
  Doubles most(kTokens, -1e30), sums(kTokens), target_logits(kTokens);
  const auto piece = [&](Tensor& tensor, std::int64_t part) {
    return columns_of(tensor.matrix(), part * width, width);
  };
  for (std::int64_t part = 0; part < parts; ++part) {
    run_on_cpu(kernels::LossMaximum{piece(logits, part), part * width, vocab,
                                    maximum.array()});
    const Doubles values = maximum.values();
    for (std::size_t i = 0; i < kTokens; ++i) {
      most[i] = std::max(most[i], values[i]);
    }
  }
  maximum.set(most);
  for (std::int64_t part = 0; part < parts; ++part) {
    run_on_cpu(kernels::LossSum{piece(logits, part), part * width, vocab,
                                of_tokens, maximum.array(), sum.array(),
                                target.array()});
    const Doubles of_sum = sum.values(), of_target = target.values();
    for (std::size_t i = 0; i < kTokens; ++i) {
      sums[i] += of_sum[i];
      target_logits[i] += of_target[i];
    }
  }
  sum.set(sums);
  target.set(target_logits);
  Result result;
  run_on_cpu(kernels::LossTotal{of_tokens, maximum.array(), sum.array(),
                                target.array(), &result.total});
  Tensor gradient = logits;
  for (std::int64_t part = 0; part < parts; ++part) {
    run_on_cpu(kernels::LossGradient{piece(logits, part), piece(gradient, part),
                                     part * width, vocab, of_tokens,
                                     maximum.array(), sum.array(), 0.25F});
  }
  result.gradient = gradient.values();
  CHECK(gradient.gaps_untouched());
  return result;
}

}  // namespace

TEST_CASE("the loss of a cut and padded vocabulary is that of the whole") {
  struct Row {
    std::int64_t columns, vocab, parts;
    Precision dtype;
    double bound;
  };
  // 0.25 (softmax - 1) is below 0.25: half a last place is 2^-11 and 2^-14.
  for (const Row& row : {Row{37, 37, 1, Precision::fp32, 1e-7},
                         Row{40, 37, 1, Precision::fp32, 1e-7},
                         Row{40, 37, 4, Precision::fp32, 1e-7},
                         Row{80, 37, 4, Precision::fp32, 1e-7},
                         Row{40, 37, 2, Precision::bf16, 0x1p-11 + 1e-7},
                         Row{40, 37, 2, Precision::fp16, 0x1p-14 + 1e-7}}) {
    CAPTURE(row.columns);
    CAPTURE(row.parts);
    Tensor logits(kTokens, row.columns, row.columns + 3, row.dtype);
    logits.fill(1);
    Doubles values = logits.values();
    for (double& one : values) one *= 5;
    logits.set(values);
    values = logits.values();
    const Result result = cut_loss(logits, row.columns, row.vocab, row.parts);
    CHECK(result.total ==
          doctest::Approx(slow_loss(values, row.columns, row.vocab))
              .epsilon(1e-6));
    Doubles expected = slopes(
        [&](const Doubles& x) {
          return 0.25 * slow_loss(x, row.columns, row.vocab);
        },
        values);
    CHECK(distance(result.gradient, expected) < row.bound);
  }
}

TEST_CASE("a loss of large logits does not overflow, in place") {
  Tensor logits = zero_tensor(kTokens, 37);
  Doubles values(kTokens * 37, -1e4);
  for (std::size_t i = 0; i < kTokens; ++i) values[i * 37 + 3] = 1e4;
  logits.set(values);
  std::vector<std::int32_t> targets(kTokens, 3);
  Tensor maximum = zero_tensor(1, kTokens), sum = maximum, target = maximum;
  const Indices of_tokens{targets.data(), kTokens};
  run_on_cpu(kernels::LossMaximum{logits.matrix(), 0, 37, maximum.array()});
  run_on_cpu(kernels::LossSum{logits.matrix(), 0, 37, of_tokens,
                              maximum.array(), sum.array(), target.array()});
  double total = 1;
  run_on_cpu(kernels::LossTotal{of_tokens, maximum.array(), sum.array(),
                                target.array(), &total});
  CHECK(total == 1);
  run_on_cpu(kernels::LossGradient{logits.matrix(), logits.matrix(), 0, 37,
                                   of_tokens, maximum.array(), sum.array(), 1});
  CHECK(logits.values() == Doubles(kTokens * 37));
}
