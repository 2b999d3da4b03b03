// Closed forms of the literature against the graph, where they apply.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "step/build_step.h"
#include "support/planning.h"
#include "time/step_counts.h"
#include "time/step_time.h"

using namespace ztplan;

namespace {

struct Walked {
  StepGraph graph;
  PriceList prices;
  Timeline timeline;
};

/// Every forward takes 1, every backward 2, divided by the chunks of a stage;
/// all else nothing: the machine of the papers' bubble formulas.
Walked ideal(const Question& q, const Strategy& s, int micro_batches) {
  Walked w{
      build_step(setting_of(q), *engine_for(q, s), s, micro_batches), {}, {}};
  w.prices.resize(w.graph.recipes().size());
  for (const Task& task : w.graph.tasks()) {
    const bool forward = task.kind == TaskKind::forward;
    if (!forward && task.kind != TaskKind::backward) continue;
    if (!task.closes) continue;  // the last backward runs bucket by bucket
    RecipePrice& price = w.prices[static_cast<std::size_t>(task.recipe)];
    price.total = Seconds{(forward ? 1.0 : 2.0) / s.virtual_stages};
  }
  w.timeline = simulate(w.graph, w.prices);
  return w;
}

/// The machine of the zero-bubble papers: forward, gradients of inputs and of
/// weights of a stage take 1 each, divided by its chunks; all else nothing.
Walked equal_thirds(const Question& q, const Strategy& s, int micro_batches) {
  Walked w{
      build_step(setting_of(q), *engine_for(q, s), s, micro_batches), {}, {}};
  w.prices.resize(w.graph.recipes().size());
  for (const Task& task : w.graph.tasks()) {
    const bool whole = task.kind == TaskKind::backward;
    const bool third = task.kind == TaskKind::forward ||
                       task.kind == TaskKind::input_gradients ||
                       task.kind == TaskKind::weight_gradients;
    if (!(whole || third) || !task.closes) continue;
    w.prices[static_cast<std::size_t>(task.recipe)].total =
        Seconds{(whole ? 2.0 : 1.0) / s.virtual_stages};
  }
  w.timeline = simulate(w.graph, w.prices);
  return w;
}

/// Idle seconds of the stage that is longest at work, from its first pass to
/// its last: the papers' bubble.
double bubble(const Walked& w) {
  std::vector<Seconds> first(static_cast<std::size_t>(w.graph.stages()),
                             Seconds{1e9});
  std::vector<Seconds> last(first.size()), busy(first.size());
  for (std::size_t i = 0; i < w.graph.tasks().size(); ++i) {
    const Task& task = w.graph.tasks()[i];
    if (task.micro_batch < 0 || task.lane != Lane::compute) continue;
    const auto stage = static_cast<std::size_t>(task.stage);
    const Span& span = w.timeline.spans[i];
    first[stage] = std::min(first[stage], span.start);
    last[stage] = std::max(last[stage], span.end);
    busy[stage] += span.end - span.start;
  }
  double most = 0;
  for (std::size_t i = 0; i < first.size(); ++i)
    most = std::max(most, (last[i] - first[i] - busy[i]).value);
  return most;
}

}  // namespace

TEST_CASE("bubbles of zero-bubble schedules are the papers'") {
  // arXiv 2401.10241, section 2 and table 2: (p - 1)(F + B - W) of ZB-H1 and
  // (p - 1)(F + B - 2W) of ZB-H2, with F = B = W = 1.
  const Question q =
      scheduled(asked("gpt:layers=32,hidden=1024,heads=16,vocab=50304",
                      "dgx-a100-80", 16, 1024, 192),
                split_schedules());
  for (const int p : {2, 4, 8, 16})
    for (const int m : {2 * p, 3 * p, 3 * p + 1, 5 * p}) {
      const std::string cut = "pp=" + std::to_string(p) + ",schedule=";
      CAPTURE(p);
      CAPTURE(m);
      CHECK(bubble(equal_thirds(q, parse_strategy(cut + "1f1b", 16), m)) ==
            doctest::Approx(3.0 * (p - 1)).epsilon(1e-12));
      const Walked h1 = equal_thirds(q, parse_strategy(cut + "zb-h1", 16), m);
      CHECK(bubble(h1) == doctest::Approx(p - 1).epsilon(1e-12));
      const Walked h2 = equal_thirds(q, parse_strategy(cut + "zb-h2", 16), m);
      CHECK(bubble(h2) == doctest::Approx(0).epsilon(1e-12));
      // Section 6: no bubble in a V, with as much memory as 1F1B. DualPipeV:
      // README of deepseek-ai/DualPipe, (PP/2 - 1)(F&B + B - 3W) of chunks half
      // as long, where F&B takes F + B and B is both parts: p - 1.
      CHECK(bubble(equal_thirds(q, parse_strategy(cut + "zb-v", 16), m)) ==
            doctest::Approx(0).epsilon(1e-12));
      CHECK(bubble(equal_thirds(q, parse_strategy(cut + "dualpipe-v", 16),
                                m)) <= (p - 1) * (1 + 1e-12));
      // Both end when the last stage, p - 1 behind the first, has done its
      // work: the step waits for the gradient norm of all.
      for (const Walked* walked : {&h1, &h2})
        CHECK(walked->timeline.end().value ==
              doctest::Approx(3.0 * m + p - 1).epsilon(1e-12));
    }
}

TEST_CASE("bubbles of 1F1B, GPipe and interleaved stages are the papers'") {
  // (p - 1)(f + b) / v beside m (f + b): arXiv 2104.04473, section 2.2.
  const Question q = asked("gpt:layers=48,hidden=1024,heads=16,vocab=50304",
                           "dgx-a100-80", 16, 1024, 192);
  for (const char* text : {"gpipe", "1f1b"})
    for (const int p : {2, 4, 8, 16}) {
      const Strategy s =
          parse_strategy("pp=" + std::to_string(p) + ",schedule=" + text, 16);
      for (const int m : {1, 3, 8, 12}) {
        const Walked w = ideal(q, s, m);
        CAPTURE(to_text(s));
        CHECK(w.timeline.end().value ==
              doctest::Approx(3.0 * (m + p - 1)).epsilon(1e-12));
      }
    }
  for (const int v : {2, 3})
    for (const int p : {2, 4, 8}) {
      const Strategy s = parse_strategy(
          "pp=" + std::to_string(p) + ",vpp=" + std::to_string(v), 16);
      for (const int rounds : {1, 2, 4}) {
        const Walked w = ideal(q, s, p * rounds);
        CAPTURE(to_text(s));
        CHECK(
            w.timeline.end().value ==
            doctest::Approx(3.0 * (p * rounds + (p - 1.0) / v)).epsilon(1e-12));
      }
    }
}

TEST_CASE("operations a token costs are those of the published formulas") {
  // Megatron-LM, arXiv 2104.04473, equation 3 without recomputation:
  // 72 B s l h^2 (1 + s / 6h + V / 12lh), attention counted in full.
  struct Row {
    const char* model;
    int layers, hidden, vocab, sequence;
  };
  for (const Row& row : {Row{"gpt3-175b", 96, 12288, 50257, 2048},
                         Row{"1t", 128, 25600, 51200, 2048}}) {
    const double h = row.hidden, l = row.layers, s = row.sequence;
    const double formula =
        72 * l * h * h * (1 + s / (6 * h) + row.vocab / (12 * l * h));
    CHECK(model_flops(load_model(row.model), row.sequence, AttentionCount::full)
              .value == doctest::Approx(formula).epsilon(1e-9));
  }
  // PaLM, arXiv 2204.02311, appendix B: 6N + 12 L H Q T, where N leaves out the
  // embedding that is only looked up (and here norms, which multiply nothing).
  const ModelSpec llama = load_model("llama3-8b");
  const double products =
      static_cast<double>(parameters(llama) - embedding_parameters(llama)) -
      (2.0 * 32 + 1) * 4096;
  CHECK(model_flops(llama, 8192, AttentionCount::full).value ==
        doctest::Approx(6 * products + 12.0 * 32 * 32 * 128 * 8192)
            .epsilon(1e-9));
  // Causal attention does half of it.
  CHECK(
      model_flops(llama, 8192, AttentionCount::causal).value ==
      doctest::Approx(6 * products + 6.0 * 32 * 32 * 128 * 8192).epsilon(1e-4));
  // Adapters of rank 8 on q and v: PEFT counts 3,407,872 parameters, which have
  // a gradient; the 8 billion beside them have none.
  CHECK(model_flops(llama, 8192, AttentionCount::full,
                    parse_adapters("r=8,targets=q,v"))
            .value ==
        doctest::Approx(4 * products + 12.0 * 32 * 32 * 128 * 8192 +
                        6.0 * 3'407'872)
            .epsilon(1e-9));
  // Experts: the products of the active parameters only.
  const ModelSpec experts = load_model("mixtral-8x7b");
  const double active = static_cast<double>(active_parameters(experts) -
                                            embedding_parameters(experts)) -
                        (2.0 * 32 + 1) * 4096;
  CHECK(
      model_flops(experts, 4096, AttentionCount::full).value ==
      doctest::Approx(6 * active + 12.0 * 32 * 32 * 128 * 4096).epsilon(1e-9));
}

TEST_CASE("traffic of a step is what the papers count") {
  // ZeRO, arXiv 1910.02054, section 7: 2 psi for stages 0 to 2 and 3 psi for
  // stage 3, with gradients in 16 bits and one micro-batch.
  Question q = asked("llama2-7b", "dgx-a100-80", 8, 2048, 8);
  q.workload.gradient = Precision::bf16;
  const double psi = 2.0 * static_cast<double>(parameters(q.model));
  const double share = 7.0 / 8;
  const double volumes[] = {2, 2, 2, 3};  // by stage
  for (int zero = 0; zero < 4; ++zero) {
    const Strategy s = parse_strategy("zero=" + std::to_string(zero), 8);
    const Bytes sent =
        count_step(setting_of(q), *engine_for(q, s), s).traffic.data;
    CAPTURE(zero);
    CHECK(static_cast<double>(sent.value) ==
          doctest::Approx(volumes[zero] * psi * share).epsilon(0.002));
  }
  // Megatron-LM, arXiv 1909.08053, section 3: two all-reduces of 2 b s h bytes
  // a layer forward and two backward, of which a ring sends 2 (t - 1) / t.
  const Strategy cut = parse_strategy("tp=8", 8);
  const double all_reduce = 2.0 * 7 / 8 * 2 * 2048 * 4096;
  const Bytes sent =
      count_step(setting_of(q), *engine_for(q, cut), cut).traffic.tensor;
  CHECK(static_cast<double>(sent.value) ==
        doctest::Approx(8 * (32 * 4 + 2) * all_reduce).epsilon(0.001));
}
