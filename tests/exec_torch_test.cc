// One rank in fp32 trains as plain PyTorch does: tests/fixtures/make_torch.py.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "exec/safetensors.h"
#include "support/training.h"

using namespace ztplan;

namespace {

std::vector<float> values_of(const TensorFiles& file, const std::string& name) {
  const TensorView& tensor = file.tensors().at(name);
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::ranges::copy(tensor.bytes,
                    std::as_writable_bytes(std::span(values)).begin());
  return values;
}

/// Of the norm of what is expected.
double distance(const std::vector<float>& expected,
                const std::vector<float>& found) {
  REQUIRE(found.size() == expected.size());
  double squares = 0, off = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    squares += double{expected[i]} * expected[i];
    off += std::pow(double{found[i]} - expected[i], 2);
  }
  return std::sqrt(off / squares);
}

void check_numbers(const std::vector<float>& expected,
                   const std::vector<double>& found) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(std::abs(found[i] - expected[i]) <= 1e-5 * std::abs(expected[i]));
}

}  // namespace

TEST_CASE("exec: one rank trains as PyTorch does") {
  struct Row {
    std::string family, model;
  };
  for (const Row& row :
       {Row{"gpt", "gpt:layers=2,hidden=16,heads=4,ffn=32,vocab=30,seq=8"},
        Row{"llama",
            "llama:layers=2,hidden=16,heads=4,kv_heads=2,ffn=24,vocab=30,seq="
            "8"},
        Row{"moe",
            "llama:layers=2,hidden=16,heads=4,kv_heads=2,ffn=8,experts=4,"
            "top_k=2,vocab=30,seq=8"}}) {
    CAPTURE(row.family);
    const std::string path = std::string(ZTPLAN_SOURCE_DIR) +
                             "/tests/fixtures/torch_" + row.family +
                             ".safetensors";
    const TensorFiles file = TensorFiles::open(path);
    const Training ran = train({.model = row.model,
                                .strategy = "dp=1",
                                .sequence = 8,
                                .global_batch = 4,
                                .steps = 10,
                                .weights = path});
    check_numbers(values_of(file, "losses"), ran.losses);
    check_numbers(values_of(file, "norms"), ran.gradient_norms);
    check_numbers(values_of(file, "balances"), ran.balances);
    std::size_t compared = 0;
    for (const auto& entry : ran.tensors) {
      CAPTURE(entry.first);
      // A bias of all keys shifts all scores alike: rounding noise.
      if (entry.first.ends_with("attention.k.bias")) continue;
      CHECK(distance(values_of(file, "gradient." + entry.first),
                     entry.second.gradients) < 1e-5);
      ++compared;
    }
    CHECK(compared > 15);
  }
}
