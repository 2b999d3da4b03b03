#include "exec/gather_texts.h"

#include <cstdint>
#include <utility>

namespace ztplan {
std::vector<std::string> gather_texts(Communicator& world, Device& device,
                                      std::string mine) {
  const auto ranks = static_cast<std::size_t>(world.size());
  std::uint64_t size = mine.size();
  std::vector<std::uint64_t> sizes(ranks);
  world.all_gather(
      Lane::compute, bytes_at(&size, sizeof size),
      bytes_at(sizes.data(), std::ssize(sizes) * std::int64_t{sizeof size}));
  device.synchronize();
  std::vector<std::string> all;
  std::vector<Message> sends, receives;
  if (world.rank() == 0) {
    for (const std::uint64_t each : sizes) all.emplace_back(each, '\0');
    all[0] = std::move(mine);
    for (std::size_t i = 1; i < ranks; ++i)
      receives.push_back(
          {static_cast<int>(i), bytes_at(all[i].data(), std::ssize(all[i]))});
  } else {
    sends.push_back({0, bytes_at(mine.data(), std::ssize(mine))});
  }
  world.exchange(Lane::compute, std::move(sends), std::move(receives));
  device.synchronize();
  return all;
}

}  // namespace ztplan
