#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "base/json.h"
#include "base/quantity_text.h"
#include "base/regular_file.h"

namespace ztplan {
namespace {

constexpr std::size_t kChunk = 4 * kKiB;  // read past the expected end

[[noreturn]] void refuse_as_too_large(const std::string& path, Bytes limit) {
  refuse_to_read(path, fmt::format("it is larger than {}", text(limit)),
                 "check that this is the right file");
}

std::string read_to_end(int file, const std::string& path, Bytes limit,
                        std::size_t expected) {
  std::string content;
  std::size_t chunk = expected;
  for (;; chunk = kChunk) {
    const std::size_t before = content.size();
    content.resize(before + chunk);
    const ssize_t got = ::read(file, content.data() + before, chunk);
    if (got < 0 && errno != EINTR) refuse_as_system_says(path);
    content.resize(before +
                   static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return content;
    if (std::cmp_greater(content.size(), limit.value)) {
      refuse_as_too_large(path, limit);
    }
  }
}

}  // namespace

std::string read_file(const std::string& path, Bytes limit) {
  const RegularFile file(path);
  if (file.size() > limit) refuse_as_too_large(path, limit);
  // One byte more than it should hold finds its end with the first read.
  return read_to_end(file.descriptor(), path, limit,
                     static_cast<std::size_t>(file.size().value) + 1);
}

}  // namespace ztplan
