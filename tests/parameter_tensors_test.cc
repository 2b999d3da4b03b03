#include "strategy/parameter_tensors.h"

#include <doctest/doctest.h>

#include "spec/catalog.h"
#include "support/memory_world.h"

using namespace ztplan;

namespace {

std::int64_t elements(const TensorList& tensors) {
  std::int64_t sum = 0;
  for (const ParameterTensors& each : tensors)
    sum += each.count * each.elements;
  return sum;
}

Bytes held(const World& world, std::string_view what) {
  for (const Holding& holding : world.ledger_of(0)) {
    if (holding.what == what) return holding.bytes;
  }
  return {};
}

World deepspeed(ModelSpec model, const char* strategy) {
  return with_engine(world(std::move(model), workload(2048, 64), strategy),
                     "deepspeed");
}

constexpr const char* kSmall = "small parameters, whole";

}  // namespace

TEST_CASE("tensors of every model add up to its parameters") {
  for (const ModelSpec& model : all_models()) {
    CAPTURE(model.name);
    std::int64_t sum =
        elements(embedding_tensors(model, {}, model.vocab)) +
        elements(norm_tensors(model, {}, model.vocab)) +
        (model.tied ? 0 : end_share(model, {}, model.vocab).head);
    for (const LayerGroup& group : model.layers)
      sum += group.count * elements(layer_tensors(model, group.layer, {}, {}));
    CHECK(sum == parameters(model));
  }
}

// DeepSpeed marks parameters of at most 100,000 elements as persistent: of
// Llama 3 8B 65 norms of 4,096 each.
TEST_CASE("ZeRO 3 of DeepSpeed keeps norms whole") {
  const World llama3 = deepspeed(llama3_8b(), "dp=8,zero=3");
  CHECK(held(llama3, kSmall) == Bytes{2L * 65 * 4096});
  CHECK(held(deepspeed(llama3_8b(), "dp=8,zero=2"), kSmall) == Bytes{});
  CHECK(held(with_engine(llama3, "fsdp"), kSmall) == Bytes{});
  CHECK(held(deepspeed(llama3_8b(), "dp=1,zero=3"), kSmall) == Bytes{});
}

// Four norm vectors, seven biases of which one is four times as wide, a layer.
TEST_CASE("biases persist too, up to the threshold") {
  const ModelSpec model = gpt(24, 1024, 16, 50257);
  constexpr std::int64_t kLayers = 24, kHidden = 1024;
  const std::int64_t narrow = kLayers * (4 + 5) * kHidden + 2 * kHidden;
  const std::int64_t wide = kLayers * 4 * kHidden;
  CHECK(held(deepspeed(model, "dp=8,zero=3"), kSmall) ==
        Bytes{2L * (narrow + wide)});
  CHECK(held(deepspeed(model, "dp=8,zero=3,persist=1024"), kSmall) ==
        Bytes{2L * narrow});
  CHECK(held(deepspeed(model, "dp=8,zero=3,persist=1023"), kSmall) == Bytes{});
}

TEST_CASE("a limit on all that persists is kept") {
  const ModelSpec model = gpt(24, 1024, 16, 50257);
  const Bytes some =
      held(deepspeed(model, "dp=8,zero=3,persist_total=100000"), kSmall);
  CHECK(some <= Bytes{2L * 100'000});
  CHECK(some > Bytes{2L * 99'000});
}

TEST_CASE("what persists is not gathered") {
  const char* const what = "gathered weights of two layers";
  const World none = deepspeed(llama3_8b(), "dp=8,zero=3,persist=1");
  const World norms = deepspeed(llama3_8b(), "dp=8,zero=3");
  CHECK(held(none, what) - held(norms, what) == Bytes{2L * 2 * 2 * 4096});
}

TEST_CASE("small parameters stay on the device when others leave it") {
  const World away =
      deepspeed(llama3_8b(), "dp=8,zero=3,offload=cpu+parameters");
  CHECK(held(away, kSmall) == Bytes{2L * 65 * 4096});
}
