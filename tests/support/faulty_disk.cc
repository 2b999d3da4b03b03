#include "support/faulty_disk.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/error.h"

namespace {

constexpr int kNever = -1;
constexpr int kDead = 77;  // exit status of a child that was stopped

struct Plan {
  int calls = 0;
  int nth = kNever;
  int code = 0;  // of errno; 0: die
};
Plan plan;

/// True when the call must fail.
bool fails_now() {
  const int call = plan.calls++;
  if (plan.nth == kNever || call < plan.nth) return false;
  if (plan.code == 0) ::_exit(kDead);
  errno = plan.code;
  return true;
}

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the
// linker's names.
extern "C" {
ssize_t __real_write(int file, const void* data, size_t size);
int __real_fsync(int file);
int __real_rename(const char* from, const char* to);

ssize_t __wrap_write(int file, const void* data, size_t size) {
  return fails_now() ? -1 : __real_write(file, data, size);
}
int __wrap_fsync(int file) { return fails_now() ? -1 : __real_fsync(file); }
int __wrap_rename(const char* from, const char* to) {
  return fails_now() ? -1 : __real_rename(from, to);
}
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace ztplan {

FaultyDisk::FaultyDisk(int nth, int code) {
  require(code != 0, "a failure has a code");
  plan = {.nth = nth, .code = code};
}
FaultyDisk::~FaultyDisk() { plan = {}; }
int FaultyDisk::calls() const { return plan.calls; }

bool dies_at(int nth, const std::function<void()>& work) {
  const pid_t child = ::fork();
  require(child >= 0, "a child can be started");
  if (child == 0) {
    plan = {.nth = nth};
    work();
    ::_exit(0);
  }
  int status = 0;
  require(::waitpid(child, &status, 0) == child, "a child ends");
  require(WIFEXITED(status), "a child of a test exits");
  return WEXITSTATUS(status) == kDead;
}

}  // namespace ztplan
