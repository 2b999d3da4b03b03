#include "support/replicas.h"

#include <cstring>

namespace ztplan {
namespace {

std::uint32_t bits_at(const std::byte* data, std::int64_t i, Precision dtype) {
  const std::int64_t width = dtype == Precision::fp32 ? 4 : 2;
  std::uint32_t bits = 0;
  std::memcpy(&bits, data + i * width, static_cast<std::size_t>(width));
  return bits;
}

}  // namespace

void Replicas::put(Held& held, std::int64_t at, std::uint32_t bits) {
  const auto i = static_cast<std::size_t>(at);
  if (held.known[i] != 0) {
    ++compared_;
    held.differs = held.differs || held.bits[i] != bits;
  }
  held.known[i] = 1;
  held.bits[i] = bits;
}

void Replicas::hold(const FlatState& flat, const Array& shard, int number,
                    bool alone) {
  const std::int64_t begin = number * flat.shard;
  const std::int64_t from = alone ? begin : 0;
  const std::int64_t until = alone ? begin + flat.shard : flat.padded;
  for (const Parameter& parameter : flat.flat.parameters) {
    Held& held = held_[parameter.name];
    const auto size =
        static_cast<std::size_t>(parameter.rows * parameter.columns);
    held.bits.resize(size);
    held.known.resize(size);
    for (std::int64_t i = 0; i < parameter.size(); ++i) {
      const std::int64_t at = parameter.offset + i;
      if (at < from || at >= until) continue;
      const std::int64_t row =
          parameter.first_row + i / parameter.local_columns;
      const std::int64_t column =
          parameter.first_column + i % parameter.local_columns;
      put(held, row * parameter.columns + column,
          bits_at(shard.data, at - begin, shard.dtype));
    }
  }
}

std::vector<std::string> Replicas::differing() const {
  std::vector<std::string> names;
  for (const auto& entry : held_)
    if (entry.second.differs) names.push_back(entry.first);
  return names;
}

}  // namespace ztplan
