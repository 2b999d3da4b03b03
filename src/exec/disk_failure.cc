#include "exec/disk_failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <system_error>

#include "base/error.h"

namespace ztplan {
namespace {

/// Whether the path is to blame, and not the disk.
bool is_bad_path(int code) {
  constexpr int kCodes[] = {EACCES,  EPERM,        EROFS, ENOENT,
                            ENOTDIR, ENAMETOOLONG, EISDIR};
  return std::ranges::find(kCodes, code) != std::end(kCodes);
}

std::string hint_for(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return "free some space, or write to another disk";
    case EACCES:
    case EPERM:
    case EROFS:
      return "name a directory you may write to";
    case ENOENT:
    case ENOTDIR:
      return "make its directory first";
    default:
      return "";
  }
}

}  // namespace

void throw_disk_failure(const std::string& what, int code) {
  const std::string why =
      fmt::format("{}: {}", what, std::generic_category().message(code));
  if (is_bad_path(code)) throw Error(why, hint_for(code));
  throw Mishap(why, hint_for(code));
}

}  // namespace ztplan
