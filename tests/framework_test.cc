#include "spec/framework.h"

#include <doctest/doctest.h>

#include <map>

#include "search/evaluate.h"
#include "spec/catalog.h"
#include "step/build_step.h"
#include "step/layer_work.h"
#include "step/state_work.h"
#include "strategy/engine_memory.h"
#include "support/any_engine.h"
#include "support/messages.h"
#include "support/planning.h"
#include "support/priced_machine.h"
#include "support/temporary_directory.h"
#include "time/step_counts.h"
#include "time/step_time.h"

using namespace ztplan;

namespace {

std::string file_with(const std::string& rest) {
  return R"({"id": "own", "engine": "megatron", "source": "a test")" + rest +
         "}";
}

/// What the reader says of a file with these further keys.
std::string said_of(const std::string& rest) {
  const TemporaryDirectory folder;
  const std::string path = folder.write("own.json", file_with(rest));
  const std::string said = refusal([&] {
    const Framework own = load_framework(path);
    calibration_for(all_devices().front(), own);
  });
  const std::size_t name = said.find("own.json: ");
  return name == std::string::npos ? said : said.substr(name + 10);
}

/// A layer of llama3-8b on 16 GPUs as `change` makes its framework.
struct World {
  Question question = asked("llama3-8b", "dgx-a100-80", 16, 8192, 64);
  Framework& framework() { return question.workload.framework; }
  Recipe forward(const char* text) {
    return layer_forward(setting_of(question),
                         question.model.layers.front().layer,
                         parse_strategy(text, 16));
  }
  Recipe backward(const char* text) {
    return layer_backward(setting_of(question),
                          question.model.layers.front().layer,
                          parse_strategy(text, 16));
  }
  Seconds step(const std::string& text) {
    const Strategy s = parse_strategy(text, 16);
    const Machine machine{question.cluster, question.calibration};
    return estimate_step(setting_of(question), any_engine(), s, machine)
        .total();
  }
};

template <class Kind>
double total(const Recipe& recipe, double (*of)(const Kind&)) {
  double sum = 0;
  for (const Item& item : recipe.items)
    if (const Kind* work = std::get_if<Kind>(&item.work))
      sum += of(*work) * static_cast<double>(item.count);
  return sum;
}

double attention_flops(const Recipe& recipe) {
  return total<AttentionWork>(
      recipe, [](const AttentionWork& work) { return flops(work).value; });
}

double pass_bytes(const Recipe& recipe) {
  return total<Stream>(recipe, [](const Stream& work) {
    return static_cast<double>(work.bytes.value);
  });
}

}  // namespace

TEST_CASE("every engine has one usual version, and every version an engine") {
  std::map<std::string, int> usual;
  for (const Framework& framework : all_frameworks()) {
    CAPTURE(framework.id);
    CHECK(refusal([&] { find_engine(framework.engine); }).empty());
    CHECK(load_framework(framework.id) == framework);
    CHECK(!framework.source.empty());
    usual[framework.engine] += framework.is_default ? 1 : 0;
  }
  for (const Engine* engine : engines()) {
    CAPTURE(engine->name);
    CHECK(usual[engine->name] == 1);
    CHECK(default_framework(engine->name).engine == engine->name);
  }
}

TEST_CASE("a version's constants lie over those of every device") {
  const Framework torchtitan = load_framework("torchtitan");
  for (const DeviceSpec& device : all_devices()) {
    CAPTURE(device.id);
    const bool hopper = device.architecture == "Hopper";
    const double share = calibration_for(device, torchtitan).flash_share.value;
    CHECK(share ==
          (hopper ? 0.37 : published_calibration(device).flash_share.value));
  }
}

TEST_CASE("a version is read strictly") {
  CHECK(said_of("").empty());
  CHECK(said_of(R"(, "facts": {"dropout": {"value": true, "source": "x"}})")
            .empty());
  CHECK(said_of(R"(, "facts": {"drop": {"value": true, "source": "x"}})") ==
        "facts: nothing of a framework is called 'drop'");
  CHECK(said_of(R"(, "facts": {"dropout": {"value": true}})").find("source") !=
        std::string::npos);
  CHECK(said_of(R"(, "facts": {"dropout": {"value": true, "source": ""}})") ==
        "facts.dropout: its source is empty");
  CHECK(said_of(R"(, "facts": {"dropout": {"value": 1, "source": "x"}})") !=
        "");
  CHECK(said_of(R"(, "kernels": {"fused": {"value": 0, "source": "x"}})") !=
        "");
  CHECK(said_of(R"(, "constants": {"speed": {}})").find("called 'speed'") !=
        std::string::npos);
  CHECK(said_of(R"(, "speed": 1)").find("unknown key") != std::string::npos);
  CHECK(refusal([] { load_framework("megatron-2012"); }) ==
        "no version of an engine \"megatron-2012\"");
  CHECK(hint_of([] {
          load_framework("megatron-2012");
        }).find("did you mean megatron-2021?") != std::string::npos);
}

// torchtitan: mixed_precision_reduce float32; accelerate: reduce_dtype is that
// of training.
TEST_CASE("gradients of FSDP travel as its version reduces them") {
  const Strategy three = parse_strategy("dp=16,zero=3", 16);
  const auto travelling = [&](const char* version, const Strategy& strategy) {
    Workload work = asked("llama3-8b", "dgx-a100-80", 16, 8192, 64).workload;
    work.gradient = Precision::fp32;
    work.framework = load_framework(version);
    return travelling_bytes(work, strategy, 1'000);
  };
  CHECK(travelling("torchtitan", three) == Bytes{4'000});
  CHECK(travelling("fsdp", three) == Bytes{4'000});
  for (const char* version : {"transformers", "torchtune", "llm-foundry"})
    CHECK(travelling(version, three) == Bytes{2'000});
  CHECK(travelling("transformers", parse_strategy("dp=16,zero=3,comm=fp32",
                                                  16)) == Bytes{4'000});
}

// accelerate's no_sync before the last micro-batch.
TEST_CASE("accelerate reduces gradients once a step, torchtitan each time") {
  const auto reduced = [](const char* version, const char* text) {
    Question q = asked("llama3-8b", "dgx-a100-80", 16, 8192, 64);
    q.workload.framework = load_framework(version);
    q.workload.gradient = Precision::bf16;
    return count_step(setting_of(q), find_engine("fsdp"),
                      parse_strategy(text, 16))
        .traffic.gradients;
  };
  for (const char* text : {"dp=16,zero=2,comm=bf16", "dp=16,zero=3,comm=bf16"})
    CHECK(reduced("torchtitan", text) == reduced("accelerate", text) * 4);
}

TEST_CASE("attention that computes the masked half does twice the work") {
  World world;
  const double skipped = attention_flops(world.forward("tp=1"));
  world.framework().skips_mask = false;
  CHECK(attention_flops(world.forward("tp=1")) == doctest::Approx(2 * skipped));
}

TEST_CASE(
    "the last rank of an unbalanced ring sees all keys but half a block") {
  // (c - 1) whole blocks and a half one, over c halves: 2 - 1/c.
  World world;
  for (const int c : {1, 2, 4, 8}) {
    const std::string text = "cp=" + std::to_string(c);
    world.framework().balances_ring = true;
    const double balanced = attention_flops(world.forward(text.c_str()));
    world.framework().balances_ring = false;
    CHECK(attention_flops(world.forward(text.c_str())) ==
          doctest::Approx(balanced * (2 - 1.0 / c)));
  }
}

TEST_CASE("dropout reads and writes its mask") {
  World world;
  const double elements = 8192.0 * 4096;
  const double forward = pass_bytes(world.forward("tp=1"));
  const double backward = pass_bytes(world.backward("tp=1"));
  world.framework().dropout = true;
  CHECK(pass_bytes(world.forward("tp=1")) ==
        doctest::Approx(forward + 2 * 1 * elements));
  CHECK(pass_bytes(world.backward("tp=1")) ==
        doctest::Approx(backward + 2 * 5 * elements));
}

TEST_CASE("casts to fp8 are passes, unless the pass before them casts") {
  World world;
  world.question.workload.precision = Precision::fp8;
  world.framework().fuses_casts = true;
  const double fused = pass_bytes(world.forward("tp=1"));
  world.framework().fuses_casts = false;
  // The inputs of the output projection and of the second MLP product.
  CHECK(pass_bytes(world.forward("tp=1")) ==
        doctest::Approx(fused + 8192.0 * (4096 + 14336) * 4));
  world.question.workload.precision = Precision::bf16;
  CHECK(pass_bytes(world.forward("tp=1")) == doctest::Approx(fused));
}

// arXiv 2509.25149, figure 5: every product of a layer, forward and backward.
TEST_CASE("casts to fp4 read twice and write two halves") {
  World world;
  const double wide = pass_bytes(world.forward("tp=1"));
  world.question.workload.precision = Precision::fp4;
  CHECK(pass_bytes(world.forward("tp=1")) ==
        doctest::Approx(wide + 8192.0 * (4096 + 14336) * 5));
}

TEST_CASE("the output layer and routers keep 16 bits in narrow training") {
  World world;
  world.question.model = load_model("mixtral-8x7b");
  for (const Precision precision : {Precision::fp8, Precision::fp4}) {
    world.question.workload.precision = precision;
    int narrow = 0;
    for (const Item& item : world.forward("tp=1").items)
      if (const auto* work = std::get_if<Matmul>(&item.work))
        narrow += work->precision == precision ? 1 : 0;
    CHECK(narrow == 4);  // two of attention, two of experts; not the router's
    const Recipe head = head_forward(setting_of(world.question),
                                     parse_strategy("tp=1", 16), 32000);
    for (const Item& item : head.items)
      if (const auto* work = std::get_if<Matmul>(&item.work))
        CHECK(work->precision == Precision::bf16);
  }
}

TEST_CASE("biases and clamps of experts are passes where none is fused") {
  World world;
  world.question.model = load_model("gpt-oss-120b");
  FeedForward& ffn = world.question.model.layers.front().layer.ffn;
  const double forward = pass_bytes(world.forward("tp=1"));
  const double backward = pass_bytes(world.backward("tp=1"));
  ffn.clamped = false;
  const double elements = 4.0 * 8192 * 2880;  // of four experts a token
  CHECK(forward - pass_bytes(world.forward("tp=1")) ==
        doctest::Approx(16 * elements));
  CHECK(backward - pass_bytes(world.backward("tp=1")) ==
        doctest::Approx(20 * elements));
  ffn.bias = false;
  CHECK(forward - pass_bytes(world.forward("tp=1")) ==
        doctest::Approx((16 + 28) * elements));
  CHECK(backward - pass_bytes(world.backward("tp=1")) ==
        doctest::Approx((20 + 40) * elements));
  const double plain = pass_bytes(world.forward("tp=1"));
  ffn.bias = ffn.clamped = true;
  world.framework().fused_experts = true;
  CHECK(pass_bytes(world.forward("tp=1")) == doctest::Approx(plain));
}

TEST_CASE("rows of an expert are padded, whatever their mean is") {
  World world;
  world.question.model = load_model("kimi-k2");
  world.question.workload.precision = Precision::fp8;
  const Layer& layer = world.question.model.layers.back().layer;
  const Recipe forward = layer_forward(setting_of(world.question), layer,
                                       parse_strategy("tp=1,ep=16", 16));
  // 8192 tokens, 8 of 384 experts, 16 ranks of 24: 2730 and two thirds.
  int products = 0;
  for (const Item& item : forward.items)
    if (const auto* work = std::get_if<Matmul>(&item.work))
      if (work->batch == 24) {
        CHECK(work->m == 2752);
        ++products;
      }
  CHECK(products == 2);
}

TEST_CASE("the busiest experts set the pace of all") {
  World world;
  world.question.model = load_model("mixtral-8x7b");
  const auto rows = [&] {
    double flops_of_experts = 0;
    for (const Item& item : world.forward("tp=1,ep=8").items)
      if (const auto* work = std::get_if<Matmul>(&item.work))
        if (work->k == 14336) flops_of_experts += flops(*work).value;
    return flops_of_experts;
  };
  const double even = rows();
  const Seconds quick = world.step("tp=1,ep=8");
  world.question.workload.expert_load = 1.5;
  CHECK(rows() == doctest::Approx(1.5 * even));
  CHECK(world.step("tp=1,ep=8") > quick);
}

TEST_CASE("a boundary cut over tensor ranks is gathered by them") {
  World world;
  const Strategy s = parse_strategy("tp=4,pp=2,sp=0", 16);
  const Engine& engine = *engine_for(world.question, s);
  const Setting setting = setting_of(world.question);
  const LayerKinds kinds = layer_kinds(world.question.model);
  const StageSizes sizes = stage_sizes(setting, engine, kinds, s);
  const StepParts parts{setting, engine, s, kinds, sizes};
  const auto bytes = [&](std::size_t i) {
    return std::get<Collective>(boundary_send(parts).items.at(i).work)
        .bytes.value;
  };
  CHECK(boundary_send(parts).items.size() == 1);
  CHECK(bytes(0) == 8192 * 4096 * 2);
  world.framework().scatters_boundary = true;
  CHECK(boundary_send(parts).items.size() == 2);
  CHECK(bytes(0) == 8192 * 4096 * 2 / 4);
  CHECK(bytes(1) == 8192 * 4096 * 2);
}

TEST_CASE("rings alone are as quick in a node, and slower over two") {
  PricedMachine machine = nodes_of("a100", 2, BytesPerSecond{5e9});
  machine.cluster.levels.back().nics_per_node = 8;
  const auto time = [&](Group group, Rings rings) {
    return price(Collective{CollectiveOp::all_reduce, group, Bytes{1 << 28},
                            rings},
                 machine.machine())
        .value;
  };
  CHECK(time({8, 1}, Rings::only) == time({8, 1}, Rings::planned));
  CHECK(time({16, 1}, Rings::only) > 1.3 * time({16, 1}, Rings::planned));
  // One NIC of a node's eight; alone in its node a rank has its own anyway.
  CHECK(time({16, 1}, Rings::one_nic) > 5 * time({16, 1}, Rings::only));
  CHECK(time({2, 8}, Rings::one_nic) == time({2, 8}, Rings::only));
}

TEST_CASE("gradients that wait for backward do not hold back its neighbours") {
  // Reduced one after the other down the pipeline, eight stages would add
  // eight reductions.
  World world;
  const Seconds beside = world.step("pp=8,micro=1");
  const Seconds after = world.step("pp=8,micro=1,overlap=0");
  CHECK(after >= beside);
  const Seconds none =
      world.step("pp=8,dp=2,micro=1,overlap=0,compress=onebit");
  CHECK((after - beside).value < 2 * (after - none).value);
  world.framework().overlaps_gradients = false;
  CHECK(world.step("pp=8,micro=1") == after);
  CHECK(world.step("pp=8,micro=1,overlap=1") == beside);
}

TEST_CASE("sums of input gradients that wait cost more") {
  World world;
  const Seconds beside = world.step("tp=8,sp=0");
  world.framework().overlaps_tensor = false;
  CHECK(world.step("tp=8,sp=0") > beside);
  CHECK(world.step("tp=1") == World().step("tp=1"));
}

TEST_CASE("collectives are launched by the host as kernels are") {
  World world;
  world.question.calibration.collective_start.value = 1;  // a second each
  // Two all-reduces of a layer's forward, four of both of its passes.
  CHECK(world.step("tp=2,micro=1,sp=0").value > 32 * 4);
}

TEST_CASE("a version names its loss, the user has the last word") {
  const TemporaryDirectory folder;
  const auto own = [&](const char* loss) {
    return load_framework(folder.write(
        "own.json", file_with(std::string(R"(, "loss": {"value": ")") + loss +
                              R"(", "source": "s"})")));
  };
  CHECK(own("upcast").loss == LossKernel::upcast);
  CHECK(
      refusal([&] { own("softmax"); })
          .ends_with("loss must be fused, compiled, vocab_parallel, eager, "
                     "upcast, uncast, chunked, fused_linear, not \"softmax\""));
  const EngineMemory& keeps = *find_engine("fsdp").memory;
  Workload workload;
  CHECK(loss_kernel(keeps, workload) == LossKernel::eager);
  workload.framework = own("compiled");
  CHECK(loss_kernel(keeps, workload) == LossKernel::compiled);
  workload.loss = LossKernel::chunked;
  CHECK(loss_kernel(keeps, workload) == LossKernel::chunked);
}

TEST_CASE("quantized weights are written out for every product") {
  World world;
  world.question.workload.adapters = {.rank = 8, .q = true};
  const double before = pass_bytes(world.forward("tp=1"));
  world.question.workload.quantize = Quantize::nf4;
  // Llama 3 8B: 2 (16-bit) + 0.5 + 4/64 bytes for each weight of a layer.
  const double weights = 4096.0 * (4096 + 1024) * 2 + 3.0 * 4096 * 14336;
  CHECK(pass_bytes(world.forward("tp=1")) - before ==
        doctest::Approx(2.5625 * weights));
}

TEST_CASE("gradients have the width of the engine, then of its version") {
  const EngineMemory& deepspeed = *find_engine("deepspeed").memory;
  const EngineMemory& megatron = *find_engine("megatron").memory;
  const Framework usual;
  const Framework of_2022 = load_framework("megatron-deepspeed");
  const Framework of_2021 = load_framework("megatron-2021");
  using P = Precision;
  CHECK(default_gradient(deepspeed, usual, P::bf16) == P::bf16);
  CHECK(default_gradient(deepspeed, of_2022, P::bf16) == P::fp32);
  CHECK(default_gradient(deepspeed, of_2022, P::fp16) == P::fp16);
  CHECK(default_gradient(megatron, usual, P::fp16) == P::fp32);
  CHECK(default_gradient(megatron, of_2021, P::fp16) == P::fp16);
  CHECK(default_gradient(deepspeed, usual, P::fp8) == P::fp32);
  const Framework bridge = load_framework("megatron-bridge-26.06");
  CHECK(default_gradient(megatron, bridge, P::bf16) == P::bf16);
  CHECK(default_gradient(megatron, bridge, P::fp8) == P::bf16);
  CHECK(default_gradient(megatron, bridge, P::fp16) == P::fp32);
}

TEST_CASE("a version's fp32 accumulation takes its own passes") {
  World world;
  world.question.workload.gradient = Precision::fp32;
  const auto step = [&](double factor) {
    world.question.calibration.gradient_factor.value = factor;
    return world.step("tp=1,zero=1");
  };
  // 10 bytes of every parameter and micro-batch: 64 / 16 of them.
  const double bytes =
      10.0 * 4 * static_cast<double>(parameters(world.question.model));
  const DeviceSpec& device = world.question.cluster.device;
  const double seconds =
      bytes / (device.memory_bandwidth.value *
               world.question.calibration.memory_share.value);
  CHECK((step(2) - step(1)).value == doctest::Approx(seconds).epsilon(0.01));
}

TEST_CASE("fused modules keep less than their engine's usual ones") {
  World world;
  const Strategy s = parse_strategy("tp=1,zero=1", 16);
  const auto peak = [&] {
    return evaluate(world.question, find_engine("deepspeed"), s)
        .memory.allocated;
  };
  const Bytes usual = peak();
  world.framework().fused_modules = true;
  CHECK(peak() < usual);
}

TEST_CASE("how experts are reached and fed is a version's") {
  World world;
  world.question.model = load_model("mixtral-8x7b");
  world.question.workload.precision = Precision::fp8;
  Framework& framework = world.framework();
  const auto exchanged = [&] {
    double sum = 0;
    for (const Item& item : world.forward("tp=1,ep=8").items)
      if (const auto* work = std::get_if<Collective>(&item.work))
        if (work->op == CollectiveOp::all_to_all)
          sum += static_cast<double>(work->bytes.value);
    return sum;
  };
  // Two exchanges of two 16-bit rows a token; sent once, a token with 2 experts
  // among 8 ranks reaches 8(1 - (7/8)^2) = 1.875 of them.
  const double rows = 2.0 * 8192 * 2 * 4096 * 2;
  CHECK(exchanged() == doctest::Approx(rows));
  framework.sends_once = true;
  CHECK(exchanged() == doctest::Approx(rows * 1.875 / 2));

  const double apart = pass_bytes(world.forward("tp=1,ep=8"));
  const std::int64_t launches = world.forward("tp=1,ep=8").kernels;
  framework.fused_experts = true;
  // Casts of both products' inputs (4096 and 14336 wide) and padding there and
  // back, 4 bytes each, of two rows a token.
  CHECK(apart - pass_bytes(world.forward("tp=1,ep=8")) ==
        doctest::Approx(8192.0 * 2 * 4 * (4096 + 14336 + 2 * 4096)));
  CHECK(launches - world.forward("tp=1,ep=8").kernels ==
        framework.casts_per_expert);
}

TEST_CASE("adapters are small products beside frozen ones") {
  World world;
  const auto products = [](const Recipe& recipe) {
    return total<Matmul>(recipe,
                         [](const Matmul& work) { return flops(work).value; });
  };
  const double forward = products(world.forward("tp=1"));
  const double backward = products(world.backward("tp=1"));
  world.question.workload.adapters = {.rank = 8, .q = true, .v = true};
  // Query 4096 to 4096 and value 4096 to 1024: A and B forward, the gradients
  // of their inputs and weights backward. Frozen weights have no gradient.
  const double adapted = 2.0 * 8192 * 8 * (4096 + 4096 + 4096 + 1024);
  CHECK(products(world.forward("tp=1")) == doctest::Approx(forward + adapted));
  CHECK(products(world.backward("tp=1")) ==
        doctest::Approx(backward / 2 + 2 * adapted));
}
