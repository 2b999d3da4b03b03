// One checkpoint on disk: a directory with a file of each rank and, written
// last, "manifest.json". Any part of any tensor can be read from it, whatever
// layout of ranks wrote it. Which checkpoints there are is
// checkpoint_store.h's.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/manifest.h"
#include "exec/mapped_file.h"

namespace ztplan {

inline constexpr char kManifestName[] = "manifest.json";

/// What a rank holds of a tensor. Requires a dtype of fp32, fp16 or bf16.
struct TensorToSave {
  std::string name;
  Precision dtype = Precision::fp32;
  std::int64_t rows = 1, columns = 0;  // of the whole; a vector is one row
  TensorPart part;
  std::span<const std::byte> bytes;  // as many as the part's elements need
};

/// What lies in the file of one rank: to be gathered for the manifest.
struct RankFile {
  SavedFile file;
  std::map<std::string, SavedTensor> tensors;  // of file 0
};

/// Writes "rank-00007.bin" into the directory, whole or not at all. No element
/// of a tensor may be saved twice, by whatever ranks. Throws `Error` when the
/// disk is full or the directory cannot be written to.
RankFile write_rank_file(const std::string& directory, int rank,
                         std::span<const TensorToSave> tensors);

/// The manifest of the files of all ranks. Requires that ranks agree on dtype
/// and shape of a tensor, and hold each of its elements once.
Manifest join(const RunState& state, std::span<const RankFile> ranks);

class Checkpoint {
 public:
  /// Throws `Error` when there is no manifest, it is damaged, or a file is
  /// missing or has not its size: it says which.
  static Checkpoint open(const std::string& directory);

  const Manifest& manifest() const { return manifest_; }
  /// Elements of `block` of the tensor, row by row, in its dtype. Throws
  /// `Error` when there is no such tensor, or a file that holds some of them
  /// is not as it was written. Requires a block within the tensor and room for
  /// it. Pieces are checked when first read: not for two threads at once.
  void read(const std::string& name, const Block& block,
            std::span<std::byte> out);

 private:
  void check(const std::string& name, const Piece& piece, std::size_t bytes);

  std::string directory_;
  Manifest manifest_;
  std::vector<std::unique_ptr<const MappedFile>> files_;  // none when empty
  std::map<const Piece*, bool> checked_;
};

}  // namespace ztplan
