#include "exec/checkpoint_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/quote.h"
#include "exec/checkpoint.h"
#include "exec/whole_file.h"

namespace ztplan {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr mode_t kReadableByAll = 0644;

[[noreturn]] void refuse(const std::string& path, const std::error_code& why) {
  throw Error(fmt::format("cannot keep checkpoints in {}: {}", quote(path),
                          why.message()),
              "name a directory you may write to");
}

void throw_on(const std::error_code& why, const std::string& path) {
  if (why) refuse(path, why);
}

std::string directory_name(std::int64_t step) {
  return fmt::format("{}{:06}", kPrefix, step);
}

/// The step a directory is named after, if it is one of ours.
std::optional<std::int64_t> step_of(const fs::path& directory) {
  const std::string name = directory.filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [last, error] =
      std::from_chars(name.data() + kPrefix.size(), end, step);
  if (error != std::errc() || last != end || step < 0) return std::nullopt;
  return directory_name(step) == name ? std::optional(step) : std::nullopt;
}

bool is_whole(const fs::path& directory) {
  std::error_code ignored;
  return fs::exists(directory / kManifestName, ignored);
}

std::vector<fs::path> step_directories(const std::string& path) {
  std::error_code why;
  std::vector<fs::path> found;
  for (fs::directory_iterator at(path, why), end; !why && at != end;
       at.increment(why)) {
    if (step_of(at->path())) found.push_back(at->path());
  }
  if (why == std::errc::no_such_file_or_directory) return {};
  throw_on(why, path);
  return found;
}

/// The manifest first: a checkpoint half removed is one not finished.
void remove_checkpoint(const fs::path& directory) {
  std::error_code why;
  fs::remove(directory / kManifestName, why);
  throw_on(why, directory.string());
  sync_directory(directory.string());
  fs::remove_all(directory, why);
  throw_on(why, directory.string());
}

/// Of `steps`, ascending: all after `newest`, and all but `keep` up to it.
std::vector<std::int64_t> outlived(std::vector<std::int64_t> steps,
                                   std::int64_t newest, int keep) {
  const auto end = std::ranges::upper_bound(steps, newest);
  steps.erase(end - std::min<std::ptrdiff_t>(keep, end - steps.begin()), end);
  return steps;
}

void remove_unfinished(const std::string& path) {
  for (const fs::path& directory : step_directories(path)) {
    if (!is_whole(directory)) remove_checkpoint(directory);
  }
}

}  // namespace

CheckpointStore::CheckpointStore(const std::string& path) : path_(path) {
  std::error_code why;
  fs::create_directories(path, why);
  throw_on(why, path);
  const std::string lock = path + "/lock";
  lock_ = ::open(lock.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, kReadableByAll);
  if (lock_ < 0) refuse(path, {errno, std::generic_category()});
  if (::flock(lock_, LOCK_EX | LOCK_NB) == 0) return;
  const int code = errno;
  ::close(lock_);
  if (code != EWOULDBLOCK) refuse(path, {code, std::generic_category()});
  throw Error(
      fmt::format("another run keeps its checkpoints in {}", quote(path)),
      "name another directory, or wait until it ends");
}

CheckpointStore::~CheckpointStore() { ::close(lock_); }

std::string CheckpointStore::begin(std::int64_t step) const {
  remove_unfinished(path_);
  std::string directory = checkpoint_directory(path_, step);
  if (fs::exists(directory)) remove_checkpoint(directory);
  std::error_code why;
  fs::create_directory(directory, why);
  throw_on(why, directory);
  sync_directory(path_);
  return directory;
}

void CheckpointStore::finish(const Manifest& manifest, int keep) const {
  require(keep >= 1, "a checkpoint just made is kept");
  const std::string directory =
      checkpoint_directory(path_, manifest.state.step);
  WholeFile file(directory + "/" + kManifestName);
  file.append(to_text(manifest));
  file.finish();
  for (const std::int64_t step :
       outlived(whole_checkpoints(path_), manifest.state.step, keep)) {
    remove_checkpoint(checkpoint_directory(path_, step));
  }
}

std::vector<std::int64_t> whole_checkpoints(const std::string& path) {
  std::vector<std::int64_t> steps;
  for (const fs::path& directory : step_directories(path)) {
    const auto step = step_of(directory);
    if (step && is_whole(directory)) steps.push_back(*step);
  }
  std::ranges::sort(steps);
  return steps;
}

std::string checkpoint_directory(const std::string& path, std::int64_t step) {
  return path + "/" + directory_name(step);
}

}  // namespace ztplan
