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

// The names that ld's --wrap gives to a function and to its replacement.
extern "C" {
ssize_t real_write(int file, const void* data, size_t size) asm("__real_write");
int real_fsync(int file) asm("__real_fsync");
int real_rename(const char* from, const char* to) asm("__real_rename");
ssize_t wrap_write(int file, const void* data, size_t size) asm("__wrap_write");
int wrap_fsync(int file) asm("__wrap_fsync");
int wrap_rename(const char* from, const char* to) asm("__wrap_rename");

ssize_t wrap_write(int file, const void* data, size_t size) {
  return fails_now() ? -1 : real_write(file, data, size);
}
int wrap_fsync(int file) { return fails_now() ? -1 : real_fsync(file); }
int wrap_rename(const char* from, const char* to) {
  return fails_now() ? -1 : real_rename(from, to);
}
}

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
