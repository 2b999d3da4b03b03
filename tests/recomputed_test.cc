// What backward runs again of the modules that Megatron-LM recomputes, and how
// its arguments say so.
#include "strategy/recomputed.h"

#include <doctest/doctest.h>

#include "interop/format.h"
#include "step/layer_work.h"
#include "support/answers.h"
#include "support/planning.h"

using namespace ztplan;

namespace {

constexpr int kSequence = 4096;

/// The layer of `index`-th group of `model`.
struct World {
  Question question;
  std::size_t group;
  Recipe backward(const std::string& text) const {
    return layer_backward(setting_of(question),
                          question.model.layers[group].layer,
                          parse_strategy(text, 64));
  }
  Recipe forward(const std::string& text) const {
    return layer_forward(setting_of(question),
                         question.model.layers[group].layer,
                         parse_strategy(text, 64));
  }
};

World world_of(const char* model, std::size_t group) {
  return {asked(model, "dgx-h100", 64, kSequence, 64), group};
}

double again_flops(const Recipe& recipe) {
  double sum = 0;
  for (const Item& item : recipe.items)
    if (item.again)
      sum += flops(item.work).value * static_cast<double>(item.count);
  return sum;
}

/// Of one collective, run again.
struct Moved {
  CollectiveOp op;
  std::int64_t bytes;
  auto operator<=>(const Moved&) const = default;
};

std::vector<Moved> again_moved(const Recipe& recipe, TimeTerm term) {
  std::vector<Moved> moved;
  for (const Item& item : recipe.items)
    if (const auto* work = std::get_if<Collective>(&item.work))
      if (item.again && item.term == term)
        moved.push_back({work->op, work->bytes.value});
  return moved;
}

using Ops = std::vector<Moved>;
constexpr double kTokens = kSequence;

}  // namespace

TEST_CASE("a recomputed MLP runs its products and collectives again") {
  const World w = world_of("llama3-8b", 0);
  const std::string mlp = "recompute=selective:mlp";
  CHECK(again_flops(w.backward(mlp)) == 2 * kTokens * 3 * 4096 * 14336);
  CHECK(again_flops(w.backward("tp=4," + mlp)) ==
        2 * kTokens * 3 * 4096 * 14336 / 4);
  const std::int64_t stream = std::int64_t{kSequence} * 4096 * 2;
  CHECK(again_moved(w.backward("tp=4," + mlp), TimeTerm::tensor_comm) ==
        Ops{{CollectiveOp::all_reduce, stream}});
  CHECK(again_moved(w.backward("tp=4,sp=1," + mlp), TimeTerm::tensor_comm) ==
        Ops{{CollectiveOp::all_gather, stream},
            {CollectiveOp::reduce_scatter, stream}});
}

TEST_CASE("recomputed experts are routed, exchanged and multiplied again") {
  const World w = world_of("mixtral-8x7b", 0);
  const std::string moe = "recompute=selective:moe";
  CHECK(again_flops(w.backward("ep=8," + moe)) ==
        2 * kTokens * 4096 * (8 + 2 * 3 * 14336.0));
  const std::int64_t rows = std::int64_t{kSequence} * 2 * 4096 * 2;
  Ops sent = again_moved(w.backward("ep=8," + moe), TimeTerm::expert_comm);
  REQUIRE(sent.size() == 3);  // counts, there, and back
  CHECK(sent[0].op == CollectiveOp::all_gather);
  CHECK(sent[1] == Moved{CollectiveOp::all_to_all, rows});
  CHECK(sent[2] == sent[1]);
  // An exchange that the whole layer would repeat too, and attention not.
  CHECK(again_moved(w.backward("ep=8,recompute=full"), TimeTerm::expert_comm) ==
        sent);
  CHECK(again_flops(w.backward("ep=8," + moe)) <
        again_flops(w.backward("ep=8,recompute=full")));
  CHECK(w.backward("ep=8," + moe).kernels > w.backward("ep=8").kernels);
  CHECK(w.backward("ep=8," + moe).kernels <
        w.backward("ep=8,recompute=full").kernels);
}

TEST_CASE("modules run again are those of their layers alone") {
  const World dense = world_of("deepseek-v3", 0);
  const World experts = world_of("deepseek-v3", 1);
  const double shared = 2 * kTokens * 3 * 7168 * 2048;
  CHECK(again_flops(dense.backward("recompute=selective:moe")) == 0);
  CHECK(again_flops(experts.backward("recompute=selective:mlp")) == 0);
  CHECK(again_flops(experts.backward("recompute=selective:shared_experts")) ==
        shared);
  // Shared experts within recomputed ones: once with all, once for themselves.
  CHECK(
      again_flops(experts.backward("recompute=selective:moe+shared_experts")) ==
      again_flops(experts.backward("recompute=selective:moe")) + shared);
}

TEST_CASE("up-projections run again without the products before them") {
  const World w = world_of("deepseek-v3", 0);
  const std::string up = "recompute=selective:mla_up_proj";
  CHECK(again_flops(w.backward(up)) ==
        2 * kTokens * 128 * (1536 * 192.0 + 512 * 256.0));
  const std::int64_t token = 2L * kSequence;
  CHECK(again_moved(w.backward("tp=2,sp=1," + up), TimeTerm::tensor_comm) ==
        Ops{{CollectiveOp::all_gather, 1536 * token},
            {CollectiveOp::all_gather, 512 * token}});
  CHECK(again_moved(w.backward("tp=2," + up), TimeTerm::tensor_comm).empty());
}

TEST_CASE("what is recomputed changes no forward") {
  const World w = world_of("deepseek-v3", 1);
  const char* all = "recompute=selective:mla_up_proj+mlp+moe+shared_experts";
  CHECK(w.forward(all).items == w.forward("").items);
  CHECK(w.forward(all).kernels == w.forward("").kernels);
}

TEST_CASE("Megatron-LM's arguments name the modules both ways") {
  struct Row {
    const char* model;
    const char* recompute;
    const char* modules;
  };
  for (const Row& row :
       {Row{"llama3-8b", "selective:mlp", "mlp"},
        Row{"mixtral-8x7b", "selective:moe", "moe"},
        Row{"deepseek-v3", "selective:mla_up_proj+mlp", "mla_up_proj mlp"},
        Row{"deepseek-v3",
            "selective:attention+norms+activation+mla_up_proj+mlp+moe+"
            "shared_experts",
            "core_attn layernorm moe_act mla_up_proj mlp moe "
            "shared_experts"}}) {
    CAPTURE(std::string(row.recompute));
    Question question = asked(row.model, "dgx-h100", 64, 2048, 64);
    question.engines = {&find_engine("megatron")};
    question.workload.engine = "megatron";
    const Strategy sent =
        parse_strategy("zero=1,recompute=" + std::string(row.recompute), 64);
    REQUIRE_FALSE(
        why_illegal(*question.engines.front(), setting_of(question), sent));
    const Plan plan = evaluate(question, *question.engines.front(), sent);
    const FileFormat& format = find_format("megatron");
    const Emitted emitted = format.emit({question, plan, Launcher::torchrun});
    const EmittedFile& file = emitted.files.front();
    CHECK(file.text.find("--recompute-granularity selective\n  "
                         "--recompute-modules " +
                         std::string(row.modules) + "\n") != std::string::npos);
    const Configuration read =
        format.read(file.name, file.text, Given{64, &question.model, 1});
    CHECK(to_text(read.strategy.recompute) == row.recompute);
    CHECK(read.findings.empty());
  }
}

TEST_CASE("of modules of Megatron-LM that are not known the others stay") {
  const auto read = [](const std::string& rest) {
    return find_format("megatron")
        .read("a.sh",
              "--num-layers 2 --micro-batch-size 1 "
              "--recompute-granularity selective "
              "--recompute-modules " +
                  rest,
              Given{8, nullptr, 1});
  };
  Configuration some = read("gdn_norm_out mlp");
  CHECK(to_text(some.strategy.recompute) == "selective:mlp");
  REQUIRE(some.findings.size() == 1);
  CHECK(some.findings.front().rule == std::string("module-not-counted"));
  CHECK(to_text(read("gdn_norm_out").strategy.recompute) == "selective");
  const Configuration overlapped =
      read("shared_experts --moe-shared-expert-overlap");
  REQUIRE(overlapped.findings.size() == 1);
  CHECK(overlapped.findings.front().rule ==
        std::string("shared-experts-overlap"));
  CHECK(overlapped.findings.front().severity == Severity::refused);
}

TEST_CASE("a search looks at the modules that are asked for") {
  const auto plans =
      answer(
          "plan --model mixtral-8x7b --gpus 64 --seq 4096 --global-batch 64 "
          "--tp 1 --pp 4 --ep 8 --zero 1 --engine megatron --top 3 "
          "--recompute selective:moe,selective:moe+norms")
          .at("plans");
  REQUIRE_FALSE(plans.empty());
  for (const auto& plan : plans)
    CHECK(
        parse_recompute(plan.at("strategy").at("recompute").get<std::string>())
            .moe);
}
