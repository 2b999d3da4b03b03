// What a checkpoint is of, and where each element of each tensor lies: values
// and their text. Files and directories are checkpoint.h's.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "exec/block.h"
#include "strategy/strategy.h"

namespace ztplan {

/// Where a run stands, layout of ranks apart.
struct RunState {
  std::int64_t step = 0;     // steps done
  std::uint64_t seed = 0;    // of samples and first weights
  std::int64_t samples = 0;  // read so far: the index of the next
  double loss_scale = 1;
  std::string strategy, model;

  bool operator==(const RunState&) const = default;
};

/// Elements of a tensor: those of `block`, counted row by row, from `from`
/// until `until`. A shard of ZeRO is a range, one of tensor parallelism a
/// block, one of both a range of a block.
struct TensorPart {
  Block block;
  std::int64_t from = 0, until = 0;

  std::int64_t size() const { return until - from; }
  bool operator==(const TensorPart&) const = default;
};

/// All of a block.
TensorPart all_of(const Block& block);

struct Piece {
  TensorPart part;
  std::int64_t file = 0;    // its place in Manifest::files
  std::int64_t offset = 0;  // bytes from the file's begin
  std::uint32_t crc32c = 0;

  bool operator==(const Piece&) const = default;
};

struct SavedTensor {
  Precision dtype = Precision::fp32;
  std::int64_t rows = 1, columns = 0;  // of the whole; a vector is one row
  std::vector<Piece> pieces;

  bool operator==(const SavedTensor&) const = default;
};

struct SavedFile {
  std::string name;
  std::int64_t bytes = 0;

  bool operator==(const SavedFile&) const = default;
};

struct Manifest {
  RunState state;
  std::vector<SavedFile> files;
  std::map<std::string, SavedTensor> tensors;

  bool operator==(const Manifest&) const = default;
};

/// JSON with its own CRC-32C. A piece is the text "file offset crc32c row rows
/// column columns from until".
std::string to_text(const Manifest& manifest);

/// Throws `Error` that begins with `origin`, also when a byte of the text is
/// not as it was written, or a piece lies without its file or its tensor.
Manifest parse_manifest(std::string_view text, const std::string& origin);

}  // namespace ztplan
