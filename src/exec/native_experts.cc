// Routed experts: every token goes to its top-k experts, wherever they are, and
// what they give comes back (Switch Transformers, arXiv 2101.03961; GShard,
// arXiv 2006.16668). No token is dropped: a rank that is sent more rows than it
// has room for ends the run and says how much room it takes.
#include <fmt/format.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "exec/layer_pass.h"

namespace ztplan {

using namespace kernels;  // NOLINT: their names are this file's vocabulary

namespace {

using Counts = std::vector<std::int64_t>;

/// Bytes of the device read or written by the host, in order with compute.
template <class T>
std::vector<T> fetch(const LayerPass& p, const std::byte* data,
                     std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  p.context.device.copy(Lane::compute,
                        reinterpret_cast<std::byte*>(values.data()), data,
                        Bytes{count * static_cast<std::int64_t>(sizeof(T))});
  p.context.device.synchronize();
  return values;
}
template <class T>
void put(const LayerPass& p, std::byte* data, const std::vector<T>& values) {
  p.context.device.copy(
      Lane::compute, data, reinterpret_cast<const std::byte*>(values.data()),
      Bytes{static_cast<std::int64_t>(values.size() * sizeof(T))});
  p.context.device.synchronize();
}

std::byte* bytes_of(const Indices& indices) {
  return reinterpret_cast<std::byte*>(indices.data);
}

std::int64_t sum(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

/// Who sends how many rows of which expert to whom.
class Dispatch {
 public:
  /// `counts` of rows: [ranks, experts].
  Dispatch(const LayerPass& p, const std::vector<std::int32_t>& counts)
      : local_(p.n.local_experts),
        counts_(counts.begin(), counts.end()),
        me_(p.context.expert.rank()),
        ranks_(p.context.expert.size()),
        experts_(p.n.experts) {}

  std::int64_t rows(int from, std::int64_t expert) const {
    return counts_[static_cast<std::size_t>(from * experts_ + expert)];
  }
  /// Rows this rank sends to, and receives from, each.
  Counts sends() const {
    Counts rows_to;
    for (int to = 0; to < ranks_; ++to) rows_to.push_back(between(me_, to));
    return rows_to;
  }
  Counts receives() const {
    Counts rows_from;
    for (int from = 0; from < ranks_; ++from)
      rows_from.push_back(between(from, me_));
    return rows_from;
  }
  /// Rows of the `i`-th expert of this rank.
  std::int64_t of_expert(std::int64_t i) const {
    std::int64_t all = 0;
    for (int from = 0; from < ranks_; ++from) all += rows(from, first() + i);
    return all;
  }
  /// Rows arrive rank by rank, in each by expert: their places by expert.
  std::vector<std::int32_t> places_by_expert() const {
    std::vector<std::int32_t> places;
    for (std::int64_t i = 0; i < local_; ++i) {
      std::int64_t begin = 0;
      for (int from = 0; from < ranks_; ++from) {
        std::int64_t at = begin;
        for (std::int64_t e = 0; e < i; ++e) at += rows(from, first() + e);
        for (std::int64_t k = 0; k < rows(from, first() + i); ++k)
          places.push_back(static_cast<std::int32_t>(at + k));
        begin += between(from, me_);
      }
    }
    return places;
  }

 private:
  std::int64_t first() const { return me_ * local_; }
  std::int64_t between(int from, int to) const {
    std::int64_t all = 0;
    for (std::int64_t e = to * local_; e < (to + 1) * local_; ++e)
      all += rows(from, e);
    return all;
  }

  std::int64_t local_;
  Counts counts_;  // [ranks, experts]
  int me_, ranks_;
  std::int64_t experts_;
};

/// Slots [stream, top_k] in the order of their experts, and within one of their
/// tokens.
struct Order {
  std::vector<std::int32_t> slots, tokens, sent;  // sent: rows by expert
};

/// Rows that every rank sends to every expert, of those this one does: kept.
void gather_counts(const LayerPass& p, const std::vector<std::int32_t>& sent) {
  const Indices kept = p.saved.indices(Saved::counts);
  // Whole numbers in 32 bits travel as they are: nothing is computed.
  const Array all{bytes_of(kept), kept.size, Precision::fp32};
  const Array own =
      slice(all, p.context.expert.rank() * p.n.experts, p.n.experts);
  put(p, own.data, sent);
  p.context.expert.all_gather(Lane::compute, own, all);
}

/// Tokens of the micro-batch by expert, over all its ranks: kept.
void count_balance(const LayerPass& p, const std::vector<std::int32_t>& sent) {
  const Array kept = p.saved.array(Saved::balance, Precision::fp32);
  put(p, kept.data, std::vector<float>(sent.begin(), sent.end()));
  if (p.context.cuts_stream())
    p.context.tensor.all_reduce(Lane::compute, kept, Reduction::sum);
  p.context.context.all_reduce(Lane::compute, kept, Reduction::sum);
}

Order order_by_expert(const LayerPass& p,
                      const std::vector<std::int32_t>& chosen) {
  Order order;
  order.sent.resize(static_cast<std::size_t>(p.n.experts));
  std::vector<std::vector<std::int32_t>> by_expert(
      static_cast<std::size_t>(p.n.experts));
  for (std::size_t slot = 0; slot < chosen.size(); ++slot)
    by_expert[static_cast<std::size_t>(chosen[slot])].push_back(
        static_cast<std::int32_t>(slot));
  for (std::size_t e = 0; e < by_expert.size(); ++e) {
    order.sent[e] = static_cast<std::int32_t>(by_expert[e].size());
    for (const std::int32_t slot : by_expert[e]) {
      order.slots.push_back(slot);
      order.tokens.push_back(static_cast<std::int32_t>(slot / p.n.top_k));
    }
  }
  return order;
}

Matrix rows(const LayerPass& p, Scratch name, std::int64_t count) {
  return rows_of(p.scratch.matrix(name, p.n.hidden, p.dtype()), 0, count);
}
Matrix saved_rows(const LayerPass& p, Saved name, std::int64_t columns,
                  std::int64_t count) {
  return rows_of(p.saved.matrix(name, columns, p.dtype()), 0, count);
}

Counts in_elements(Counts counts, std::int64_t columns) {
  for (std::int64_t& count : counts) count *= columns;
  return counts;
}

/// One micro-batch's routing, kept in `saved` or read from there.
class Experts {
 public:
  /// Routes `normed`.
  static Experts route(const LayerPass& p, const Matrix& normed) {
    const Matrix logits =
        p.scratch.matrix(Scratch::logits, p.n.experts, p.dtype());
    p.linear(normed, p.weight(LayerPart::router), {}, logits);
    p.launch(Route{
        .logits = logits,
        .probabilities =
            p.saved.matrix(Saved::router, p.n.experts, Precision::fp32),
        .experts = p.saved.indices(Saved::chosen),
        .weights = p.saved.matrix(Saved::weights, p.n.top_k, Precision::fp32)});
    const Order order = order_by_expert(p, chosen(p));
    gather_counts(p, order.sent);
    count_balance(p, order.sent);
    Experts experts(p);
    experts.keep(order);
    return experts;
  }
  /// As forward routed.
  static Experts again(const LayerPass& p) { return Experts(p); }

  /// Rows on their way to experts, then in the order of experts.
  void send(const Matrix& out, const Matrix& by_expert) const {
    if (p_.context.expert.size() == 1) return p_.launch(Copy{out, by_expert});
    const Matrix in = rows(p_, Scratch::rows_in, received_);
    exchange(as_array(out), dispatch_.sends(), as_array(in),
             dispatch_.receives(), as_array(out));
    p_.launch(GatherRows{in, by_expert, arrival(), {}});
  }
  /// And back.
  void send_back(const Matrix& by_expert, const Matrix& out) const {
    if (p_.context.expert.size() == 1) return p_.launch(Copy{by_expert, out});
    const Matrix in = rows(p_, Scratch::rows_in, received_);
    p_.launch(Fill{as_array(in), 0});
    p_.launch(ScatterRows{by_expert, in, arrival(), {}});
    exchange(as_array(in), dispatch_.receives(), as_array(out),
             dispatch_.sends(), as_array(out));
  }

  /// `work(expert, its first row, its rows)` for each of this rank's.
  template <class Work>
  void for_each(const Work& work) const {
    std::int64_t from = 0;
    for (std::int64_t e = 0; e < p_.n.local_experts; ++e) {
      const std::int64_t count = dispatch_.of_expert(e);
      if (count > 0) work(e, from, count);
      from += count;
    }
  }
  std::int64_t received() const { return received_; }

 private:
  static std::vector<std::int32_t> fetch_indices(const LayerPass& p,
                                                 Saved name) {
    const Indices kept = p.saved.indices(name);
    return fetch<std::int32_t>(p, bytes_of(kept), kept.size);
  }
  static std::vector<std::int32_t> chosen(const LayerPass& p) {
    return fetch_indices(p, Saved::chosen);
  }

  explicit Experts(const LayerPass& p)
      : p_(p),
        dispatch_(p, fetch_indices(p, Saved::counts)),
        received_(sum(dispatch_.receives())) {
    if (received_ <= p.n.rows) return;
    const std::int64_t percent = divide_up(received_ * 100, p.n.chosen);
    throw Error(
        fmt::format("the experts of a rank were sent {} rows and there is room "
                    "for {}",
                    received_, p.n.rows),
        fmt::format("give them more room: load={} in the strategy", percent));
  }

  void keep(const Order& order) const {
    put(p_, bytes_of(p_.saved.indices(Saved::source)), order.tokens);
    put(p_, bytes_of(p_.saved.indices(Saved::slot)), order.slots);
    put(p_, bytes_of(p_.saved.indices(Saved::arrival)),
        dispatch_.places_by_expert());
    p_.launch(
        GatherRows{p_.saved.matrix(Saved::weights, 1, Precision::fp32),
                   p_.saved.matrix(Saved::sent_weights, 1, Precision::fp32),
                   p_.saved.indices(Saved::slot),
                   {}});
  }

  Indices arrival() const {
    return {p_.saved.indices(Saved::arrival).data, received_};
  }
  void exchange(const Array& out, const Counts& sends, const Array& in,
                const Counts& receives, const Array& held) const {
    p_.context.expert.all_to_all(Lane::compute, out,
                                 in_elements(sends, p_.n.hidden), in,
                                 in_elements(receives, p_.n.hidden), held);
  }

  const LayerPass& p_;
  Dispatch dispatch_;
  std::int64_t received_;
};

Matrix expert_matrix(const Array& flat, const LayerPass& p, std::int64_t expert,
                     const Spot& first) {
  return LayerPass::matrix_of(
      flat,
      {first.offset + expert * p.flats.expert_size, first.rows, first.columns});
}

Matrix activated(const LayerPass& p, std::int64_t count) {
  return rows_of(p.kept(Saved::expert_activated, Scratch::expert_activated,
                        p.n.expert_width),
                 0, count);
}

void activate(const LayerPass& p, std::int64_t count) {
  p.launch(ActivationForward{
      .in = saved_rows(p, Saved::expert_up, p.n.expert_up(), count),
      .out = activated(p, count),
      .kind = p.layer.ffn.activation,
      .gated = p.n.gated});
}

}  // namespace

void run_experts(const LayerPass& p, const Matrix& normed, const Matrix& out) {
  const Experts experts = Experts::route(p, normed);
  const std::int64_t count = experts.received();
  const Matrix rows_out = rows(p, Scratch::rows_out, p.n.chosen);
  const Indices source = p.saved.indices(Saved::source);
  p.launch(GatherRows{normed, rows_out, source, {}});
  const Matrix in = saved_rows(p, Saved::expert_in, p.n.hidden, count);
  experts.send(rows_out, in);
  const Matrix up = saved_rows(p, Saved::expert_up, p.n.expert_up(), count);
  experts.for_each([&](std::int64_t e, std::int64_t from, std::int64_t some) {
    p.linear(rows_of(in, from, some),
             expert_matrix(p.weights.experts, p, e, p.flats.expert_up), {},
             rows_of(up, from, some));
  });
  activate(p, count);
  const Matrix given = rows(p, Scratch::expert_rows, count);
  experts.for_each([&](std::int64_t e, std::int64_t from, std::int64_t some) {
    p.linear(rows_of(activated(p, count), from, some),
             expert_matrix(p.weights.experts, p, e, p.flats.expert_down), {},
             rows_of(given, from, some));
  });
  const Matrix returned =
      p.saved.matrix(Saved::returned, p.n.hidden, p.dtype());
  experts.send_back(given, returned);
  p.launch(Fill{as_array(out), 0});
  p.launch(ScatterRows{returned, out, source,
                       p.saved.array(Saved::sent_weights, Precision::fp32)});
}

namespace {

/// Gradient of the balance loss, E sum_e f_e P_e, with respect to a token's
/// probability of an expert that `count` of N tokens' k choices fell on: E
/// count / (N k) / N. Source: arXiv 2101.03961, equations 4 to 6.
double balance_factor(const LayerPass& p) {
  const auto tokens =
      static_cast<double>(p.n.tokens * p.context.context.size());
  return static_cast<double>(p.n.experts) /
         (tokens * static_cast<double>(p.n.top_k) * tokens);
}

/// Gradients of what was chosen: of each slot's weight, then of the logits.
Matrix router_backward(const LayerPass& p, const Matrix& out_gradient) {
  const Array by_row =
      p.scratch.array(Scratch::weight_gradients, Precision::fp32);
  p.launch(DotRows{out_gradient,
                   p.saved.matrix(Saved::returned, p.n.hidden, p.dtype()),
                   p.saved.indices(Saved::source), by_row});
  const Array by_slot =
      p.scratch.array(Scratch::slot_gradients, Precision::fp32);
  p.launch(Fill{by_slot, 0});
  p.launch(AddAtPlaces{by_row, p.saved.indices(Saved::slot), by_slot});
  const Array counts = p.saved.array(Saved::balance, Precision::fp32);
  const Matrix probabilities =
      p.saved.matrix(Saved::router, p.n.experts, Precision::fp32);
  p.launch(BalanceSum{probabilities, counts,
                      p.context.balance_share * balance_factor(p),
                      p.context.balance_sum});
  const Array balance = p.scratch.array(Scratch::balance, Precision::fp32);
  p.launch(Scale{counts, balance,
                 static_cast<float>(p.context.balance * balance_factor(p))});
  const Matrix logits =
      p.scratch.matrix(Scratch::logits, p.n.experts, p.dtype());
  p.launch(RouteBackward{.probabilities = probabilities,
                         .weights_gradient = as_matrix(by_slot, p.n.top_k),
                         .logits_gradient = logits,
                         .experts = p.saved.indices(Saved::chosen),
                         .balance = balance});
  return logits;
}

/// From the gradient of what experts gave, in `given`, to that of their rows,
/// in its place.
void products_backward(const LayerPass& p, const Experts& experts,
                       const Matrix& given) {
  const std::int64_t count = experts.received();
  const Matrix hidden = activated(p, count);
  experts.for_each([&](std::int64_t e, std::int64_t from, std::int64_t some) {
    const Matrix here = rows_of(hidden, from, some);
    const Matrix gradient = rows_of(given, from, some);
    p.weight_gradient(
        here, gradient,
        expert_matrix(p.gradients.experts, p, e, p.flats.expert_down), {});
    p.input_gradient(
        gradient, expert_matrix(p.weights.experts, p, e, p.flats.expert_down),
        here);
  });
  const Matrix up = saved_rows(p, Saved::expert_up, p.n.expert_up(), count);
  p.launch(ActivationBackward{.in = up,
                              .out_gradient = hidden,
                              .in_gradient = up,
                              .kind = p.layer.ffn.activation,
                              .gated = p.n.gated});
  const Matrix in = saved_rows(p, Saved::expert_in, p.n.hidden, count);
  experts.for_each([&](std::int64_t e, std::int64_t from, std::int64_t some) {
    const Matrix gradient = rows_of(up, from, some);
    p.weight_gradient(
        rows_of(in, from, some), gradient,
        expert_matrix(p.gradients.experts, p, e, p.flats.expert_up), {});
    p.input_gradient(gradient,
                     expert_matrix(p.weights.experts, p, e, p.flats.expert_up),
                     rows_of(given, from, some));
  });
}

}  // namespace

void run_experts_backward(const LayerPass& p, const Matrix& normed,
                          const Matrix& out_gradient, const Matrix& branch,
                          bool accumulate) {
  const Experts experts = Experts::again(p);
  const std::int64_t count = experts.received();
  if (!p.saved.has(Saved::expert_activated)) activate(p, count);
  const Matrix logits = router_backward(p, out_gradient);
  const Matrix rows_out = rows(p, Scratch::rows_out, p.n.chosen);
  const Indices source = p.saved.indices(Saved::source);
  p.launch(GatherRows{out_gradient, rows_out, source,
                      p.saved.array(Saved::sent_weights, Precision::fp32)});
  const Matrix given = rows(p, Scratch::expert_rows, count);
  experts.send(rows_out, given);
  products_backward(p, experts, given);
  experts.send_back(given, rows_out);
  p.launch(Product{.a = logits,
                   .b = p.weight(LayerPart::router),
                   .c = branch,
                   .accumulate = accumulate});
  p.weight_gradient(normed, logits, p.gradient(LayerPart::router), {});
  p.launch(ScatterRows{rows_out, branch, source, {}});
}

}  // namespace ztplan
