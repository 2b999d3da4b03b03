// The checkpoints of one run, a directory each: "step-000123". One that was
// not finished has no manifest, is never read, and goes at the next save.
//
//   CheckpointStore store(path);                      // one rank
//   const std::string place = store.begin(step);      // the same one
//   files[rank] = write_rank_file(place, rank, ...);  // every rank
//   store.finish(join(state, files), keep);           // the one, after all
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exec/manifest.h"

namespace ztplan {

class CheckpointStore {
 public:
  /// Makes the directory when it is not there, and locks it: a second run gets
  /// an `Error`. The lock goes with the process, however it ends.
  explicit CheckpointStore(const std::string& path);
  CheckpointStore(const CheckpointStore&) = delete;
  CheckpointStore& operator=(const CheckpointStore&) = delete;
  ~CheckpointStore();

  /// Removes what is not finished and makes an empty directory for `step`, of
  /// which it returns the path; a finished checkpoint of that step goes.
  /// Throws `Error`.
  std::string begin(std::int64_t step) const;
  /// Makes the checkpoint of manifest.state.step whole, then removes all but
  /// the newest `keep` whole ones. Later steps are of a future that was given
  /// up when the run went back, and go too. Requires keep >= 1. Throws `Error`;
  /// what was whole before is then still whole.
  void finish(const Manifest& manifest, int keep) const;

 private:
  std::string path_;
  int lock_ = -1;
};

/// Steps of the whole checkpoints in the directory, ascending. None when there
/// is no such directory.
std::vector<std::int64_t> whole_checkpoints(const std::string& path);
/// Where the checkpoint of a step is.
std::string checkpoint_directory(const std::string& path, std::int64_t step);

}  // namespace ztplan
