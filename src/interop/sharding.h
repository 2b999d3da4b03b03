// How PyTorch's device mesh says data parallelism: replicas of groups that
// shard. Shared by the formats of torchtitan, accelerate and FSDP.
#pragma once

#include "interop/format.h"

namespace ztplan {

struct Mesh {
  int replicate = 1;  // data parallel ranks that hold equal shards
  int shard = 1;      // data parallel ranks that shard
};

/// Requires that a shard group holds whole context groups.
Mesh mesh_of(const Strategy& strategy);

/// Puts data, ZeRO stage and shard group of a mesh into `strategy`, whose
/// context is set. `reshards`: after forward.
void set_mesh(const Mesh& mesh, bool reshards, Strategy& strategy);

/// accelerate refuses tensor and context parallelism beside replicas that shard
/// nothing; torchtitan shards over the context ranks. Source:
/// huggingface/accelerate src/accelerate/parallelism_config.py.
bool accelerate_refuses(const Mesh& mesh, const Strategy& strategy);

/// Devices of a mesh in the ranks that are left of `gpus`, or 1.
int ranks_left(int gpus, const Strategy& strategy);

/// Throws `Error` when `strategy` cuts in a way that `format` has no word for.
void refuse_pipeline_and_experts(const char* format, const Strategy& strategy);

}  // namespace ztplan
