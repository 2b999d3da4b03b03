#include "exec/positions.h"

#include "base/error.h"

namespace ztplan {
namespace {

void append_run(std::vector<std::int32_t>& positions, int run, int size) {
  for (int i = 0; i < size; ++i) positions.push_back(run * size + i);
}

}  // namespace

std::vector<std::int32_t> context_positions(const Strategy& strategy,
                                            int sequence, int rank) {
  const int ranks = strategy.context;
  const bool balanced = ranks > 1 && strategy.context_kind == ContextKind::ring;
  const int runs = balanced ? 2 * ranks : ranks;
  require(sequence % runs == 0, "a sequence divides over its context ranks");
  std::vector<std::int32_t> positions;
  append_run(positions, rank, sequence / runs);
  if (balanced) append_run(positions, runs - 1 - rank, sequence / runs);
  return positions;
}

}  // namespace ztplan
