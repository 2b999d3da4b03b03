#include "interop/sharding.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace ztplan {

Mesh mesh_of(const Strategy& s) {
  if (s.zero == 0) return {s.data, 1};
  if (s.shard_group == 0) return {1, s.data};
  const int shard = std::max(1, s.shard_group / s.context);
  return {std::max(1, s.data / shard), shard};
}

void set_mesh(const Mesh& mesh, bool reshards, Strategy& s) {
  s.data = static_cast<int>(std::min<std::int64_t>(
      std::int64_t{mesh.replicate} * mesh.shard, kMaxDevices));
  if (mesh.shard == 1 && s.context == 1) {
    s.zero = 0;
    return;
  }
  s.zero = reshards ? 3 : 2;
  if (mesh.replicate > 1)
    s.shard_group = static_cast<int>(std::min<std::int64_t>(
        std::int64_t{mesh.shard} * s.context, kMaxDevices));
}

bool accelerate_refuses(const Mesh& mesh, const Strategy& s) {
  const bool cut = s.tensor > 1 || s.context > 1;
  return cut && mesh.replicate > 1 && mesh.shard == 1;
}

int ranks_left(int gpus, const Strategy& s) {
  const std::int64_t model = std::int64_t{s.tensor} * s.pipeline * s.context;
  return static_cast<int>(std::max<std::int64_t>(1, gpus / model));
}

void refuse_pipeline_and_experts(const char* format, const Strategy& s) {
  if (s.pipeline > 1)
    throw Error(fmt::format("{} has no pipeline: pp is {}", format, s.pipeline),
                "emit for torchtitan, or plan with --pp 1");
  if (s.expert > 1)
    throw Error(
        fmt::format("{} has no expert parallelism: ep is {}", format, s.expert),
        "emit for torchtitan, or plan with --ep 1");
}

}  // namespace ztplan
