// What the operating system says of a file that cannot be written, as an error:
// of input where the path is to blame, else of the machine.
#pragma once

#include <string>

namespace ztplan {

/// Throws `Error` where the path is to blame for `code` of errno, `Mishap`
/// where it is not: a disk is full or broken. `what` could not be done.
[[noreturn]] void throw_disk_failure(const std::string& what, int code);

}  // namespace ztplan
