#include "exec/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "base/quote.h"
#include "base/regular_file.h"
#include "exec/crc32c.h"
#include "exec/whole_file.h"

namespace ztplan {
namespace {

constexpr Bytes kLargestManifest{kGiB};
constexpr char kDamaged[] = "resume from an older checkpoint";

std::size_t unsigned_size(std::int64_t size) {
  return static_cast<std::size_t>(size);
}

/// Elements that lie side by side in a part and in a row of the whole.
struct Run {
  std::int64_t row = 0, column = 0, size = 0;
  std::int64_t at = 0;  // elements of the part before them
};

/// What of the part lies in row `row` of the whole and within `wanted`.
Run run_in_row(const TensorPart& part, std::int64_t row, const Block& wanted) {
  const Block& block = part.block;
  const std::int64_t first = (row - block.row) * block.columns;
  const auto column_of = [&](std::int64_t element) {
    return block.column +
           std::clamp<std::int64_t>(element - first, 0, block.columns);
  };
  const std::int64_t begin = std::max(column_of(part.from), wanted.column);
  const std::int64_t end =
      std::min(column_of(part.until), wanted.column + wanted.columns);
  return {row, begin, end - begin, first + begin - block.column - part.from};
}

template <class Take>
void for_each_run(const TensorPart& part, const Block& wanted, Take take) {
  const Block& block = part.block;
  const std::int64_t first = std::max(block.row, wanted.row);
  const std::int64_t last =
      std::min(block.row + block.rows, wanted.row + wanted.rows);
  for (std::int64_t row = first; row < last; ++row) {
    const Run run = run_in_row(part, row, wanted);
    if (run.size > 0) take(run);
  }
}

bool touches(const TensorPart& part, const Block& wanted) {
  bool any = false;
  for_each_run(part, wanted, [&](const Run&) { any = true; });
  return any;
}

/// Which elements of a block are there.
class Coverage {
 public:
  explicit Coverage(const Block& block)
      : block_(block), there_(unsigned_size(block.size())) {}

  void add(const Run& run) {
    const std::int64_t first =
        (run.row - block_.row) * block_.columns + run.column - block_.column;
    const auto begin = there_.begin() + first;
    once_ =
        once_ && std::find(begin, begin + run.size, true) == begin + run.size;
    std::fill(begin, begin + run.size, true);
  }
  bool is_whole() const {
    return std::find(there_.begin(), there_.end(), false) == there_.end();
  }
  bool once() const { return once_; }

 private:
  Block block_;
  std::vector<bool> there_;
  bool once_ = true;
};

void require_each_once(const SavedTensor& tensor) {
  const Block whole{0, tensor.rows, 0, tensor.columns};
  Coverage coverage(whole);
  for (const Piece& piece : tensor.pieces) {
    for_each_run(piece.part, whole, [&](const Run& run) { coverage.add(run); });
  }
  require(coverage.once() && coverage.is_whole(),
          "a checkpoint holds each element of a tensor once");
}

std::unique_ptr<const MappedFile> map_file(const std::string& directory,
                                           const SavedFile& file) {
  if (std::filesystem::path(file.name).filename() != file.name) {
    throw Error(fmt::format("{}: {} is not the name of a file in it",
                            quote(directory), quote(file.name)),
                kDamaged);
  }
  const std::string path = directory + "/" + file.name;
  const std::int64_t size = RegularFile(path).size().value;
  if (size != file.bytes) {
    throw Error(fmt::format("{} has {} bytes and should have {}", quote(path),
                            size, file.bytes),
                kDamaged);
  }
  return size == 0 ? nullptr : std::make_unique<const MappedFile>(path);
}

}  // namespace

RankFile write_rank_file(const std::string& directory, int rank,
                         std::span<const TensorToSave> tensors) {
  RankFile saved{.file = {.name = fmt::format("rank-{:05}.bin", rank)},
                 .tensors = {}};
  WholeFile file(directory + "/" + saved.file.name);
  for (const TensorToSave& tensor : tensors) {
    require(std::cmp_equal(tensor.bytes.size(),
                           tensor.part.size() * bytes_of(tensor.dtype)),
            "a part of a tensor has its bytes");
    const auto [entry, is_new] = saved.tensors.try_emplace(
        tensor.name,
        SavedTensor{tensor.dtype, tensor.rows, tensor.columns, {}});
    entry->second.pieces.push_back({.part = tensor.part,
                                    .offset = file.size().value,
                                    .crc32c = crc32c(tensor.bytes)});
    file.append(tensor.bytes);
  }
  saved.file.bytes = file.size().value;
  file.finish();
  return saved;
}

Manifest join(const RunState& state, std::span<const RankFile> ranks) {
  Manifest manifest{.state = state, .files = {}, .tensors = {}};
  for (const RankFile& rank : ranks) {
    const std::int64_t file = std::ssize(manifest.files);
    manifest.files.push_back(rank.file);
    for (const auto& [name, tensor] : rank.tensors) {
      SavedTensor& joined =
          manifest.tensors
              .try_emplace(
                  name,
                  SavedTensor{tensor.dtype, tensor.rows, tensor.columns, {}})
              .first->second;
      require(joined.dtype == tensor.dtype && joined.rows == tensor.rows &&
                  joined.columns == tensor.columns,
              "ranks agree on what a tensor is");
      for (Piece piece : tensor.pieces) {
        piece.file = file;
        joined.pieces.push_back(piece);
      }
    }
  }
  for (const auto& [name, tensor] : manifest.tensors) require_each_once(tensor);
  return manifest;
}

Checkpoint Checkpoint::open(const std::string& directory) {
  Checkpoint checkpoint;
  checkpoint.directory_ = directory;
  const std::string path = directory + "/" + kManifestName;
  checkpoint.manifest_ =
      parse_manifest(read_file(path, kLargestManifest), path);
  for (const SavedFile& file : checkpoint.manifest_.files) {
    checkpoint.files_.push_back(map_file(directory, file));
  }
  return checkpoint;
}

void Checkpoint::read(const std::string& name, const Block& block,
                      std::span<std::byte> out) {
  const auto found = manifest_.tensors.find(name);
  if (found == manifest_.tensors.end()) {
    throw Error(
        fmt::format("{} holds no tensor {}", quote(directory_), quote(name)),
        "resume with the model and the optimizer it was saved with");
  }
  const SavedTensor& tensor = found->second;
  const std::int64_t width = bytes_of(tensor.dtype);
  require(block.row >= 0 && block.row + block.rows <= tensor.rows &&
              block.column >= 0 &&
              block.column + block.columns <= tensor.columns &&
              std::ssize(out) == block.size() * width,
          "a block of a tensor is read into its room");
  Coverage coverage(block);
  for (const Piece& piece : tensor.pieces) {
    if (!touches(piece.part, block)) continue;
    check(name, piece, unsigned_size(piece.part.size() * width));
    const std::byte* data =
        files_[unsigned_size(piece.file)]->bytes().data() + piece.offset;
    for_each_run(piece.part, block, [&](const Run& run) {
      const std::int64_t to =
          (run.row - block.row) * block.columns + run.column - block.column;
      std::memcpy(out.data() + to * width, data + run.at * width,
                  unsigned_size(run.size * width));
      coverage.add(run);
    });
  }
  if (!coverage.is_whole()) {
    throw Error(fmt::format("{} does not hold all of tensor {}",
                            quote(directory_), quote(name)),
                kDamaged);
  }
}

void Checkpoint::check(const std::string& name, const Piece& piece,
                       std::size_t bytes) {
  bool& checked = checked_[&piece];
  if (checked) return;
  const MappedFile& file = *files_[unsigned_size(piece.file)];
  const auto data = file.bytes().subspan(unsigned_size(piece.offset), bytes);
  if (crc32c(data) != piece.crc32c) {
    throw Error(fmt::format("{}: tensor {} is not as it was written",
                            quote(file.path()), quote(name)),
                kDamaged);
  }
  checked = true;
}

}  // namespace ztplan
