#include "exec/mpi/watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "exec/rank_call.h"

namespace ztplan {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kBetweenLooks = 10ms;
constexpr auto kLastWords = 2s;  // for others to say theirs
constexpr int kNotice = 0;       // the tag

/// Where a process runs: two of equal machine see each other's number.
struct Seat {
  std::array<char, 96> machine{};
  std::int64_t process = 0;
};

Seat own_seat() {
  std::string machine;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> machine;
  std::error_code none;  // two that cannot say see each other all the same
  machine += std::filesystem::read_symlink("/proc/self/ns/pid", none).string();
  Seat seat;
  machine.resize(std::min(machine.size(), seat.machine.size()));
  std::ranges::copy(machine, seat.machine.begin());
  seat.process = ::getpid();
  return seat;
}

/// Linux 5.3, without a wrapper for C++ in glibc 2.36.
int open_process(std::int64_t process) {
  return static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
}

/// Descriptors that can be read once the process has ended, by rank; -1 for
/// one's own and those of other machines.
std::vector<int> open_processes(MPI_Comm comm, int rank, int size) {
  const Seat mine = own_seat();
  std::vector<Seat> seats(static_cast<std::size_t>(size));
  MPI_Allgather(&mine, sizeof mine, MPI_BYTE, seats.data(), sizeof mine,
                MPI_BYTE, comm);
  std::vector<int> processes;
  for (int peer = 0; peer < size; ++peer) {
    const Seat& seat = seats[static_cast<std::size_t>(peer)];
    const bool is_seen = peer != rank && seat.machine == mine.machine;
    processes.push_back(is_seen ? open_process(seat.process) : -1);
  }
  return processes;
}

bool has_ended(int process) {
  pollfd end{process, POLLIN, 0};
  return process >= 0 && ::poll(&end, 1, 0) > 0;
}

}  // namespace

Watch::Watch(Vigil vigil) : vigil_(std::move(vigil)) {
  MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
  processes_ = open_processes(comm_, rank_, size_);
  silent_.resize(processes_.size());
  silent_[static_cast<std::size_t>(rank_)] = true;
}

Watch::~Watch() {
  for (const int process : processes_)
    if (process >= 0) ::close(process);
  MPI_Comm_free(&comm_);
}

void Watch::look() {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  if (now < next_look_) return;
  next_look_ = now + kBetweenLooks;
  if (const auto cause = find_cause()) say_and_leave(*cause);
}

void Watch::give_up(std::vector<int> ranks) {
  const std::lock_guard lock(mutex_);
  say_and_leave(
      {EXIT_FAILURE,
       fmt::format("{} did not come within {} s", ranks_text(ranks),
                   std::chrono::duration<double>(patience()).count())});
}

void Watch::keep(std::shared_ptr<const void> thing) {
  const std::lock_guard lock(mutex_);
  kept_.push_back(std::move(thing));
}

void Watch::end(int exit_code, const std::string& why) {
  const std::lock_guard lock(mutex_);
  leave({exit_code, fmt::format("rank {} failed: {}", rank_, why)});
}

/// A rank that told why it ends may be gone by now: its word comes first.
std::optional<Watch::Cause> Watch::find_cause() {
  auto cause = hear();
  return cause ? cause : miss();
}

/// Of a notice, "EXIT_CODE why".
std::optional<Watch::Cause> Watch::hear() {
  int there = 0;
  MPI_Status status;
  MPI_Iprobe(MPI_ANY_SOURCE, kNotice, comm_, &there, &status);
  if (there == 0) return std::nullopt;
  int size = 0;
  MPI_Get_count(&status, MPI_BYTE, &size);
  std::string notice(static_cast<std::size_t>(size), '\0');
  MPI_Recv(notice.data(), size, MPI_BYTE, status.MPI_SOURCE, kNotice, comm_,
           MPI_STATUS_IGNORE);
  silent_[static_cast<std::size_t>(status.MPI_SOURCE)] = true;
  Cause cause;
  const std::size_t blank = notice.find(' ');
  std::from_chars(notice.data(), notice.data() + blank, cause.exit_code);
  cause.why = notice.substr(blank + 1);
  return cause;
}

std::optional<Watch::Cause> Watch::miss() {
  for (std::size_t peer = 0; peer < processes_.size(); ++peer)
    if (!silent_[peer] && has_ended(processes_[peer])) {
      silent_[peer] = true;
      return Cause{EXIT_FAILURE, fmt::format("rank {} is gone", peer)};
    }
  return std::nullopt;
}

void Watch::say_and_leave(const Cause& cause) {
  vigil_.farewell(cause.why);
  leave(cause);
}

/// MPI_Abort is for those that say nothing: a launcher may wait in it for this
/// process to heed a SIGTERM.
void Watch::leave(const Cause& cause) {
  const std::string notice = fmt::format("{} {}", cause.exit_code, cause.why);
  std::vector<MPI_Request> sent;
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_ && !has_ended(processes_[static_cast<std::size_t>(peer)]))
      MPI_Isend(notice.data(), static_cast<int>(notice.size()), MPI_BYTE, peer,
                kNotice, comm_, &sent.emplace_back(MPI_REQUEST_NULL));
  const auto deadline = Clock::now() + kLastWords;
  while (Clock::now() < deadline) {
    find_cause();
    int all_sent = 0;
    MPI_Testall(static_cast<int>(sent.size()), sent.data(), &all_sent,
                MPI_STATUSES_IGNORE);
    if (all_sent != 0 && std::ranges::find(silent_, false) == silent_.end())
      std::_Exit(cause.exit_code);
    std::this_thread::sleep_for(1ms);
  }
  std::signal(SIGTERM, SIG_DFL);
  MPI_Abort(MPI_COMM_WORLD, cause.exit_code);
  std::_Exit(cause.exit_code);
}

}  // namespace ztplan
