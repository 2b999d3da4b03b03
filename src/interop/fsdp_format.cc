// fsdp.json says how PyTorch's fully_shard is to be applied, fsdp.py applies
// it: for a training loop of one's own. Source: pytorch/pytorch torch/
// distributed/fsdp/_fully_shard/_fully_shard.py.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "interop/findings.h"
#include "interop/formats.h"
#include "interop/launch.h"
#include "interop/sharding.h"

namespace ztplan {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kProgram[] = R"(# Applies fsdp.json to a model: see README.md.
import json
from functools import partial
from pathlib import Path

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard)
from torch.utils.checkpoint import checkpoint

PLAN = json.loads(Path(__file__).with_name("fsdp.json").read_text())


def device_mesh(device="cuda"):
    sizes = PLAN["mesh"]
    return init_device_mesh(
        device, tuple(sizes.values()), mesh_dim_names=tuple(sizes))


def recomputed(blocks):
    """How many of the blocks run forward again in backward."""
    mode, _, layers = PLAN["recompute"].partition(":")
    return int(layers or blocks) if mode == "full" else 0


def shard(model, blocks, mesh=None):
    """Shards `blocks` (the transformer layers) and then `model`."""
    mesh = mesh or device_mesh()
    # A mesh of one dimension is always one of shards.
    replicates = PLAN["mesh"]["dp_replicate"] > 1
    names = ["dp_replicate", "dp_shard"] if replicates else ["dp_shard"]
    options = {
        "mesh": mesh[tuple(names)],
        "reshard_after_forward": PLAN["reshard_after_forward"],
        "mp_policy": MixedPrecisionPolicy(
            param_dtype=getattr(torch, PLAN["param_dtype"]),
            reduce_dtype=getattr(torch, PLAN["reduce_dtype"])),
        "offload_policy":
            CPUOffloadPolicy() if PLAN["cpu_offload"] else OffloadPolicy(),
    }
    blocks = list(blocks)
    for block in blocks[:recomputed(len(blocks))]:
        block.forward = partial(
            checkpoint, block.forward, use_reentrant=False)
    for block in blocks:
        fully_shard(block, **options)
    return fully_shard(model, **options)
)";

const char* torch_name(Precision precision) {
  if (precision == Precision::fp32) return "float32";
  return precision == Precision::fp16 ? "float16" : "bfloat16";
}

Json plan_of(const Emission& e) {
  const Strategy& s = e.plan.strategy;
  const Workload& w = e.question.workload;
  const Mesh mesh = mesh_of(s);
  return {
      {"mesh", {{"dp_replicate", mesh.replicate}, {"dp_shard", mesh.shard}}},
      {"reshard_after_forward", s.zero == 3},
      {"param_dtype", torch_name(w.precision)},
      {"reduce_dtype",
       torch_name(s.tuning.communication.value_or(Precision::fp32))},
      {"cpu_offload", s.offload.parameters != OffloadTier::none},
      {"recompute", to_text(s.recompute)},
      {"micro_batch", s.micro_batch},
      {"gradient_accumulation_steps", micro_batches(s, w)},
      {"sequence", w.sequence}};
}

bool recognizes(std::string_view path, std::string_view text) {
  return path.ends_with(".json") &&
         text.find("\"reshard_after_forward\"") != std::string_view::npos;
}

Emitted emit(const Emission& e) {
  const Strategy& s = e.plan.strategy;
  refuse_pipeline_and_experts("the fsdp target", s);
  if (s.tensor > 1 || s.context > 1)
    throw Error(fmt::format("the fsdp target has no tensor or context "
                            "parallelism: tp is {}, cp {}",
                            s.tensor, s.context),
                "emit for torchtitan or accelerate");
  const Launch launch{
      .program = "\"${TRAIN:-train.py}\"",
      .arguments = {"\"$@\""},
      .environment = {{"PYTORCH_ALLOC_CONF", "expandable_segments:True"}},
      .note =
          "PyTorch 2.9 and a train.py that calls fsdp.shard(model, blocks)"};
  std::vector<std::string> unsaid = {fmt::format(
      "attention={}: of the model", to_text(e.question.workload.attention))};
  if (s.recompute.mode == Recompute::Mode::selective)
    unsaid.push_back("recompute=" + to_text(s.recompute));
  return with_launch(
      e, launch,
      {{"fsdp.json", plan_of(e).dump(2) + "\n"}, {"fsdp.py", kProgram}},
      std::move(unsaid));
}

Precision dtype(const JsonView& value) {
  const std::string text = value.string();
  if (text == "float32") return Precision::fp32;
  if (text == "float16") return Precision::fp16;
  if (text == "bfloat16") return Precision::bf16;
  value.fail("expected float32, float16 or bfloat16");
}

constexpr std::string_view kKeys[] = {
    "mesh",        "reshard_after_forward",
    "param_dtype", "reduce_dtype",
    "cpu_offload", "recompute",
    "micro_batch", "gradient_accumulation_steps",
    "sequence"};

Configuration read(std::string_view path, std::string_view text,
                   const Given& given) {
  const JsonView root = JsonView::parse(text, std::string(path));
  if (!root.is_object()) root.fail("expected an object");
  Configuration c;
  c.engine = &find_engine("fsdp");
  find_unknown(root.keys(), "", kKeys,
               {Severity::trap, "is ignored by fsdp.py", "fsdp.py"},
               c.findings);
  Strategy& s = c.strategy;
  Mesh mesh{1, ranks_left(given.gpus, s)};
  if (root.has("mesh")) {
    const JsonView sizes = root.at("mesh");
    mesh.replicate = static_cast<int>(sizes.integer_or("dp_replicate", 1));
    if (sizes.has("dp_shard"))
      mesh.shard = sizes.at("dp_shard").small_integer(1, kMaxSize);
    if (mesh.replicate < 1 || mesh.replicate > kMaxSize)
      sizes.at("dp_replicate").fail("expected a size");
  }
  set_mesh(mesh, root.boolean_or("reshard_after_forward", true), s);
  if (root.has("param_dtype")) c.precision = dtype(root.at("param_dtype"));
  c.gradient = Precision::fp32;
  if (root.has("reduce_dtype") &&
      dtype(root.at("reduce_dtype")) != Precision::fp32)
    s.tuning.communication = dtype(root.at("reduce_dtype"));
  if (root.boolean_or("cpu_offload", false))
    s.offload = {OffloadTier::cpu, OffloadTier::cpu};
  if (root.has("recompute"))
    s.recompute = parse_recompute(root.at("recompute").string());
  if (root.has("micro_batch"))
    c.micro_batch = root.at("micro_batch").small_integer(1, kMaxSize);
  if (root.has("gradient_accumulation_steps"))
    c.accumulation =
        root.at("gradient_accumulation_steps").small_integer(1, kMaxSize);
  if (root.has("sequence"))
    c.sequence = root.at("sequence").small_integer(1, 1 << 26);
  close_batch_triangle("the batch", s.data, given.gpus, c);
  if (c.micro_batch) s.micro_batch = *c.micro_batch;
  c.unsaid = {"attention"};
  return c;
}

}  // namespace

const FileFormat& fsdp_format() {
  static constexpr FileFormat kFormat{"fsdp", "fsdp", recognizes, read, emit};
  return kFormat;
}

}  // namespace ztplan
