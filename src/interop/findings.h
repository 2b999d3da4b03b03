// What readers of configurations share: findings, and keys that do not exist.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "interop/format.h"

namespace ztplan {

/// A configuration while it is read: the base of the readers.
struct Reading {
  Reading(std::string_view engine, const Given& given);
  void find(Severity severity, const char* rule, std::string key,
            std::string detail, std::string remedy, const char* source);

  const Given& given_;
  Configuration c_;
};

/// What becomes of a key that a block does not have.
struct UnknownKey {
  Severity severity;
  const char* fate;  // "is ignored"
  const char* source;
};

/// A finding for each of `keys` that is not among `known`, with the nearest.
void find_unknown(std::span<const std::string> keys, std::string_view block,
                  std::span<const std::string_view> known,
                  const UnknownKey& unknown, std::vector<Finding>& findings);

/// train_batch_size = micro_batch * accumulation * ranks: what is missing of
/// the three is filled in, a contradiction is a finding with the nearest
/// batches. `ranks` 0: not known. `key`: the batch as the format calls it.
/// Source: deepspeedai/DeepSpeed deepspeed/runtime/config.py, _batch_assertion.
void close_batch_triangle(std::string_view key, int ranks, int gpus,
                          Configuration& configuration);

}  // namespace ztplan
