#include "interop/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/nearest.h"
#include "base/quote.h"
#include "base/units.h"

namespace ztplan {
namespace {

constexpr const char* kBatchSource =
    "deepspeedai/DeepSpeed deepspeed/runtime/config.py: _batch_assertion; "
    "OpenRLHF/OpenRLHF#346";

// "252 (accumulation 18) or 266 (accumulation 19)"
std::string nearest_batches(std::int64_t batch, std::int64_t unit) {
  const std::int64_t steps = batch / unit;
  std::string above =
      fmt::format("{} (accumulation {})", (steps + 1) * unit, steps + 1);
  if (steps == 0) return above;
  return fmt::format("{} (accumulation {}) or {}", steps * unit, steps, above);
}

/// GPUs on which the batch comes out, fewer than there are.
std::string ranks_that_divide(std::int64_t batch, std::int64_t micro,
                              int ranks) {
  for (int fewer = ranks - 1; fewer >= 1; --fewer)
    if (batch % (micro * fewer) == 0)
      return fmt::format("; or {} ranks (accumulation {})", fewer,
                         batch / (micro * fewer));
  return "";
}

Finding contradiction(std::string_view key, std::string detail,
                      std::string remedy) {
  return {Severity::refused, "batch-triangle",  std::string(key),
          std::move(detail), std::move(remedy), kBatchSource};
}

void contradict(std::string_view key, int ranks, int gpus, Configuration& c) {
  const std::int64_t batch = *c.global_batch;
  const std::int64_t micro = *c.micro_batch;
  const std::int64_t steps = *c.accumulation;
  const std::int64_t product = micro * steps * ranks;
  Finding finding = contradiction(
      key,
      fmt::format("{} is not micro-batch {} * accumulation {} * {} ranks = {}",
                  batch, micro, steps, ranks, product),
      "batch " + nearest_batches(batch, micro * ranks) +
          ranks_that_divide(batch, micro, ranks));
  const bool launched_alone =
      gpus > 1 && (batch == product * gpus || product == batch * gpus);
  if (launched_alone)
    finding.remedy +=
        "; if the world size was read as 1, the launcher is wrong: start with "
        "torchrun or deepspeed, not python";
  c.findings.push_back(std::move(finding));
}

/// What no number of ranks makes right.
void contradict_anywhere(std::string_view key, Configuration& c) {
  if (!c.global_batch || !c.micro_batch || !c.accumulation) return;
  const std::int64_t unit = std::int64_t{*c.micro_batch} * *c.accumulation;
  if (*c.global_batch % unit == 0) return;
  c.findings.push_back(contradiction(
      key,
      fmt::format("{} is not a multiple of micro-batch {} * accumulation {} = "
                  "{}, however many the ranks",
                  *c.global_batch, *c.micro_batch, *c.accumulation, unit),
      fmt::format("batch {}", round_up(*c.global_batch, unit))));
}

}  // namespace

Reading::Reading(std::string_view engine, const Given& given) : given_(given) {
  c_.engine = &find_engine(engine);
}

void Reading::find(Severity severity, const char* rule, std::string key,
                   std::string detail, std::string remedy, const char* source) {
  c_.findings.push_back({severity, rule, std::move(key), std::move(detail),
                         std::move(remedy), source});
}

void find_unknown(std::span<const std::string> keys, std::string_view block,
                  std::span<const std::string_view> known,
                  const UnknownKey& unknown, std::vector<Finding>& findings) {
  const std::vector<std::string> names(known.begin(), known.end());
  for (const std::string& key : keys) {
    if (std::ranges::find(known, key) != known.end()) continue;
    const std::string close = nearest_name(key, names);
    const std::string dotted =
        block.empty() ? key : fmt::format("{}.{}", block, key);
    findings.push_back(
        {unknown.severity, "unknown-key", dotted,
         fmt::format("there is no key {}: it {}", quote(key), unknown.fate),
         close.empty() ? "remove it" : fmt::format("did you mean {}?", close),
         unknown.source});
  }
}

void close_batch_triangle(std::string_view key, int ranks, int gpus,
                          Configuration& c) {
  if (ranks < 1) return contradict_anywhere(key, c);
  if (c.global_batch && c.micro_batch && !c.accumulation) {
    const std::int64_t unit = std::int64_t{*c.micro_batch} * ranks;
    c.accumulation =
        static_cast<int>(std::max<std::int64_t>(1, *c.global_batch / unit));
  } else if (c.global_batch && !c.micro_batch) {
    c.accumulation = c.accumulation.value_or(1);
    c.micro_batch =
        std::max(1, static_cast<int>(*c.global_batch /
                                     (std::int64_t{*c.accumulation} * ranks)));
  } else if (c.micro_batch && !c.global_batch) {
    c.accumulation = c.accumulation.value_or(1);
    const std::int64_t batch =
        std::int64_t{*c.micro_batch} * *c.accumulation * ranks;
    constexpr std::int64_t kMostBatch = 1'000'000'000;
    c.global_batch = static_cast<int>(std::min(batch, kMostBatch));
  }
  if (!c.global_batch || !c.micro_batch || !c.accumulation) return;
  const std::int64_t product =
      std::int64_t{*c.micro_batch} * *c.accumulation * ranks;
  if (*c.global_batch != product) contradict(key, ranks, gpus, c);
}

}  // namespace ztplan
