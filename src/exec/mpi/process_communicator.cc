#include "exec/mpi/process_communicator.h"

#include <cstdlib>
#include <utility>

#include "exec/rank_call.h"
#include "exec/rank_sum.h"

namespace ztplan {
namespace {

/// MPI promises tags to 32767: calls have the even ones by their number,
/// messages the odd ones by theirs between two ranks. A number returns after
/// 2^14, more than lanes are ever apart.
constexpr std::int64_t kNumbers = 1 << 14;
int tag_of_call(std::int64_t number) {
  return static_cast<int>(2 * (number % kNumbers));
}
int tag_of_message(std::int64_t number) { return tag_of_call(number) + 1; }

Array part_of(const Array& whole, int index, int parts) {
  const std::int64_t begin = whole.size * index / parts;
  return slice(whole, begin, whole.size * (index + 1) / parts - begin);
}

std::vector<Array> parts_of(const Array& whole, int parts) {
  std::vector<Array> all;
  all.reserve(static_cast<std::size_t>(parts));
  for (int i = 0; i < parts; ++i) all.push_back(part_of(whole, i, parts));
  return all;
}

std::vector<Array> by_counts(const Array& data,
                             const std::vector<std::int64_t>& counts) {
  std::vector<Array> parts;
  std::int64_t begin = 0;
  for (const std::int64_t count : counts) {
    parts.push_back(slice(data, begin, count));
    begin += count;
  }
  return parts;
}

Array room_for(std::vector<std::byte>& room, const Array& like) {
  room.resize(static_cast<std::size_t>(bytes_in(like).value));
  return {room.data(), like.size, like.dtype};
}

/// This rank's share of every rank's buffer, put together into `to`; `out` is
/// what it gives to each.
void combine_at_owner(const Mail& mail, Reduction how,
                      const std::vector<Array>& out, const Array& to, int tag) {
  const auto me = static_cast<std::size_t>(mail.rank());
  std::vector<std::vector<std::byte>> rooms(out.size());
  std::vector<Array> in;
  for (std::size_t i = 0; i < out.size(); ++i)
    in.push_back(i == me ? out[me] : room_for(rooms[i], out[me]));
  mail.swap(out, in, tag);
  std::vector<const std::byte*> from;
  from.reserve(in.size());
  for (const Array& each : in) from.push_back(each.data);
  std::byte* const result = to.data;
  combine(how, to.dtype, to.size, from, std::span(&result, 1));
}

void send_from(const Mail& mail, const Array& data, int root, int tag) {
  Pending pending;
  for (int peer = 0; mail.rank() == root && peer < mail.size(); ++peer)
    if (peer != root) mail.send(pending, data, peer, tag);
  if (mail.rank() != root) mail.receive(pending, data, root, tag);
  mail.wait(pending);
}

/// A byte from each to each.
void meet(const Mail& mail, int tag) {
  std::byte token{};
  std::vector<std::byte> tokens(static_cast<std::size_t>(mail.size()));
  std::vector<Array> in;
  in.reserve(tokens.size());
  for (std::byte& each : tokens) in.push_back(bytes_at(&each, 1));
  mail.swap(std::vector<Array>(in.size(), bytes_at(&token, 1)), in, tag);
}

/// Tags of the next messages to, or from, each peer.
std::vector<int> number(const std::vector<Message>& messages,
                        std::vector<std::int64_t>& counts) {
  std::vector<int> tags;
  tags.reserve(messages.size());
  for (const Message& message : messages)
    tags.push_back(
        tag_of_message(counts[static_cast<std::size_t>(message.peer)]++));
  return tags;
}

}  // namespace

ProcessCommunicator::ProcessCommunicator(MPI_Comm comm, Watch& watch,
                                         Device& device)
    : mail_(std::make_shared<Mail>(comm, watch)),
      watch_(watch),
      device_(device),
      sent_(static_cast<std::size_t>(mail_->size())),
      received_(sent_.size()) {}

template <class Act>
void ProcessCommunicator::call(Lane lane, Act act) {
  device_.enqueue(lane, [mail = mail_, tag = tag_of_call(calls_++),
                         act = std::move(act)] { act(*mail, tag); });
}

void ProcessCommunicator::all_reduce(Lane lane, const Array& data,
                                     Reduction how) {
  all_reduce_call(data, how);
  call(lane, [data, how](const Mail& mail, int tag) {
    const std::vector<Array> parts = parts_of(data, mail.size());
    const Array own = parts[static_cast<std::size_t>(mail.rank())];
    combine_at_owner(mail, how, parts, own, tag);
    mail.swap(std::vector<Array>(parts.size(), own), parts, tag);
  });
}

void ProcessCommunicator::all_gather(Lane lane, const Array& shard,
                                     const Array& whole) {
  all_gather_call(size(), shard, whole);
  call(lane, [shard, whole](const Mail& mail, int tag) {
    const std::vector<Array> in = parts_of(whole, mail.size());
    mail.swap(std::vector<Array>(in.size(), shard), in, tag);
  });
}

void ProcessCommunicator::reduce_scatter(Lane lane, const Array& whole,
                                         const Array& shard) {
  reduce_scatter_call(size(), whole, shard);
  call(lane, [whole, shard](const Mail& mail, int tag) {
    combine_at_owner(mail, Reduction::sum, parts_of(whole, mail.size()), shard,
                     tag);
  });
}

void ProcessCommunicator::broadcast(Lane lane, const Array& data, int root) {
  broadcast_call(size(), data, root);
  call(lane, [data, root](const Mail& mail, int tag) {
    send_from(mail, data, root, tag);
  });
}

void ProcessCommunicator::all_to_all(Lane lane, const Array& out,
                                     std::vector<std::int64_t> out_counts,
                                     const Array& in,
                                     std::vector<std::int64_t> in_counts) {
  all_to_all_call(size(), out, out_counts, in, in_counts);
  call(lane, [from = by_counts(out, out_counts), to = by_counts(in, in_counts)](
                 const Mail& mail, int tag) { mail.swap(from, to, tag); });
}

void ProcessCommunicator::exchange(Lane lane, std::vector<Message> sends,
                                   std::vector<Message> receives) {
  check_messages(size(), sends);
  check_messages(size(), receives);
  std::vector<int> out_tags = number(sends, sent_);
  std::vector<int> in_tags = number(receives, received_);
  device_.enqueue(
      lane, [mail = mail_, out = std::move(sends), in = std::move(receives),
             out_tags = std::move(out_tags), in_tags = std::move(in_tags)] {
        for (std::size_t i = 0; i < out.size(); ++i)
          mail->post(out[i].data, out[i].peer, out_tags[i]);
        Pending pending;
        for (std::size_t i = 0; i < in.size(); ++i)
          mail->receive(pending, in[i].data, in[i].peer, in_tags[i]);
        mail->wait(pending);
      });
}

void ProcessCommunicator::barrier(Lane lane) {
  call(lane, [](const Mail& mail, int tag) { meet(mail, tag); });
}

/// MPI_Comm_split waits for ever: so all are there before it.
std::unique_ptr<Communicator> ProcessCommunicator::split(int color, int key) {
  barrier(Lane::compute);
  device_.synchronize();
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Comm_split(mail_->comm(), color, key, &made);
  return std::make_unique<ProcessCommunicator>(made, watch_, device_);
}

void ProcessCommunicator::abort(const std::string& why) {
  watch_.end(EXIT_FAILURE, why);
}

}  // namespace ztplan
