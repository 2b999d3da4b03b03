#include "exec/mpi/mail.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <numeric>
#include <thread>

namespace ztplan {
namespace {

constexpr std::int64_t kLargestMessage = 1 << 30;  // MPI counts in int

template <class Post>
void in_pieces(const Array& data, const Post& post) {
  const std::int64_t bytes = bytes_in(data).value;
  for (std::int64_t at = 0; at < bytes; at += kLargestMessage)
    post(data.data + at,
         static_cast<int>(std::min(kLargestMessage, bytes - at)));
}

std::vector<int> world_ranks_of(MPI_Comm comm, int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size)), found(ranks.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  MPI_Group here = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
  MPI_Comm_group(comm, &here);
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_translate_ranks(here, size, ranks.data(), world, found.data());
  MPI_Group_free(&here);
  MPI_Group_free(&world);
  return found;
}

const Array& at(const std::vector<Array>& arrays, int rank) {
  return arrays[static_cast<std::size_t>(rank)];
}

void copy_to(const Array& to, const Array& from) {
  if (from.empty() || to.data == from.data) return;
  std::memmove(to.data, from.data,
               static_cast<std::size_t>(bytes_in(from).value));
}

}  // namespace

Mail::Mail(MPI_Comm comm, Watch& watch) : comm_(comm), watch_(watch) {
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &size_);
  world_ranks_ = world_ranks_of(comm, size_);
}

/// Where this rank has failed, nobody takes its letters, which MPI still reads.
Mail::~Mail() {
  if (std::uncaught_exceptions() > 0) {
    watch_.keep(letters_);
    return;
  }
  for (Letter& letter : *letters_) wait(letter.pending);
  MPI_Comm_free(&comm_);
}

void Mail::send(Pending& pending, const Array& data, int peer, int tag) const {
  in_pieces(data, [&](const std::byte* from, int bytes) {
    pending.peers.push_back(world_ranks_[static_cast<std::size_t>(peer)]);
    MPI_Isend(from, bytes, MPI_BYTE, peer, tag, comm_,
              &pending.requests.emplace_back(MPI_REQUEST_NULL));
  });
}

void Mail::receive(Pending& pending, const Array& data, int peer,
                   int tag) const {
  in_pieces(data, [&](std::byte* to, int bytes) {
    pending.peers.push_back(world_ranks_[static_cast<std::size_t>(peer)]);
    MPI_Irecv(to, bytes, MPI_BYTE, peer, tag, comm_,
              &pending.requests.emplace_back(MPI_REQUEST_NULL));
  });
}

bool Mail::is_done(Pending& pending) const {
  int done = 0;
  MPI_Testall(static_cast<int>(pending.requests.size()),
              pending.requests.data(), &done, MPI_STATUSES_IGNORE);
  return done != 0;
}

std::vector<int> Mail::late(Pending& pending) const {
  std::vector<int> ranks;
  for (std::size_t i = 0; i < pending.requests.size(); ++i) {
    int done = 0;
    MPI_Test(&pending.requests[i], &done, MPI_STATUS_IGNORE);
    if (done == 0) ranks.push_back(pending.peers[i]);
  }
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

void Mail::wait(Pending& pending) const {
  const auto deadline = std::chrono::steady_clock::now() + watch_.patience();
  while (!is_done(pending)) {
    watch_.look();
    if (std::chrono::steady_clock::now() > deadline)
      watch_.give_up(late(pending));
    std::this_thread::yield();
  }
}

void Mail::swap(const std::vector<Array>& out, const std::vector<Array>& in,
                int tag) const {
  Pending pending;
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_) receive(pending, at(in, peer), peer, tag);
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_) send(pending, at(out, peer), peer, tag);
  copy_to(at(in, rank_), at(out, rank_));
  wait(pending);
}

void Mail::post(const Array& data, int peer, int tag) {
  const std::lock_guard lock(mutex_);
  letters_->remove_if([&](Letter& letter) { return is_done(letter.pending); });
  Letter& letter = letters_->emplace_back();
  letter.bytes.assign(data.data, data.data + bytes_in(data).value);
  send(letter.pending, {letter.bytes.data(), data.size, data.dtype}, peer, tag);
}

}  // namespace ztplan
