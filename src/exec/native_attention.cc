// Attention over whole sequences, around a ring of context ranks, or traded for
// heads between them.
#include <cmath>
#include <utility>

#include "exec/layer_pass.h"

namespace ztplan {

using namespace kernels;  // NOLINT: their names are this file's vocabulary

namespace {

/// Queries, keys and values side by side in one matrix.
struct Projected {
  Matrix q, k, v;
  static Projected of(const Matrix& all, std::int64_t query, std::int64_t key) {
    return {columns_of(all, 0, query), columns_of(all, query, key),
            columns_of(all, query + key, key)};
  }
};

bool is_cut(const LayerPass& p, ContextKind kind) {
  return p.context.context.size() > 1 &&
         p.context.strategy.context_kind == kind;
}
bool is_ring(const LayerPass& p) { return is_cut(p, ContextKind::ring); }
bool is_ulysses(const LayerPass& p) { return is_cut(p, ContextKind::ulysses); }

AttentionShape shape_of(const LayerPass& p, std::int64_t head_parts,
                        const Indices& queries, const Indices& keys) {
  AttentionShape shape;
  shape.sequences = p.n.sequences;
  shape.queries = queries.size;
  shape.keys = keys.size;
  shape.heads = p.n.heads / head_parts;
  shape.kv_heads = p.n.kv_heads / head_parts;
  shape.qk_size = shape.v_size = p.n.head_size;
  shape.causal = p.layer.attention.causal;
  shape.window = p.layer.attention.window;
  shape.query_positions = queries;
  shape.key_positions = keys;
  shape.scale = 1.0F / std::sqrt(static_cast<float>(p.n.head_size));
  return shape;
}

Matrix projected_of(const LayerPass& p) {
  return p.saved.matrix(Saved::projected, p.n.projected(), p.dtype());
}
Matrix attended_of(const LayerPass& p) {
  return p.saved.matrix(Saved::attended, p.n.query(), p.dtype());
}
Array log_sum_of(const LayerPass& p) {
  return p.kept_fp32(Saved::log_sum, Scratch::log_sum);
}

/// Attention whose keys are all here: of this rank's heads, or of those that it
/// was traded.
struct WholeAttention {
  AttentionShape shape;
  Matrix projected, out;
  std::int64_t query() const { return shape.heads * shape.qk_size; }
  std::int64_t key() const { return shape.kv_heads * shape.qk_size; }
};

WholeAttention here(const LayerPass& p) {
  const Indices& own = p.context.own_positions;
  return {shape_of(p, 1, own, own), projected_of(p), attended_of(p)};
}

void run_attention(const LayerPass& p, const WholeAttention& a) {
  const Projected x = Projected::of(a.projected, a.query(), a.key());
  p.launch(AttentionForward{.shape = a.shape,
                            .q = x.q,
                            .k = x.k,
                            .v = x.v,
                            .out = a.out,
                            .log_sum = log_sum_of(p),
                            .probabilities = p.scores()});
}

/// From the gradient of `a.out` to that of `a.projected`.
void run_attention_backward(const LayerPass& p, const WholeAttention& a,
                            const Matrix& out_gradient,
                            const Matrix& projected_gradient) {
  const Array delta = p.scratch.array(Scratch::delta, Precision::fp32);
  p.launch(AttentionDelta{a.out, out_gradient, delta, a.shape.heads,
                          a.shape.sequences});
  const Projected x = Projected::of(a.projected, a.query(), a.key());
  const Projected g = Projected::of(projected_gradient, a.query(), a.key());
  p.launch(AttentionBackward{.shape = a.shape,
                             .q = x.q,
                             .k = x.k,
                             .v = x.v,
                             .out_gradient = out_gradient,
                             .log_sum = log_sum_of(p),
                             .delta = delta,
                             .probabilities = p.scores(),
                             .q_gradient = g.q,
                             .k_gradient = g.k,
                             .v_gradient = g.v});
}

/// Keys and values that go round, and the place the next ones arrive at.
class RingBlocks {
 public:
  RingBlocks(const LayerPass& p, Scratch here, Scratch next)
      : here_(p.scratch.array(here, p.dtype())),
        next_(p.scratch.array(next, p.dtype())),
        columns_(2 * p.n.key()) {}
  Matrix here() const { return as_matrix(here_, columns_); }
  const Array& leaving() const { return here_; }
  const Array& arriving() const { return next_; }
  void turn() { std::swap(here_, next_); }

 private:
  Array here_, next_;
  std::int64_t columns_;
};

/// Positions of the keys that are here after `steps` turns.
const Indices& ring_keys(const LayerPass& p, int steps) {
  const Peers& ring = p.context.context;
  const int from = (ring.rank() + ring.size() - steps) % ring.size();
  return p.context.ring_positions[static_cast<std::size_t>(from)];
}

Matrix own_keys(const LayerPass& p) {
  return columns_of(projected_of(p), p.n.query(), 2 * p.n.key());
}

/// One block of keys into `out`, fp32.
void attend_block(const LayerPass& p, const Matrix& keys, int step,
                  const Matrix& out, const Array& log_sum) {
  const std::int64_t key = p.n.key();
  p.launch(AttentionForward{
      .shape = shape_of(p, 1, p.context.own_positions, ring_keys(p, step)),
      .q = columns_of(projected_of(p), 0, p.n.query()),
      .k = columns_of(keys, 0, key),
      .v = columns_of(keys, key, key),
      .out = out,
      .log_sum = log_sum,
      .probabilities = {}});
}

void attend_ring(const LayerPass& p) {
  const Peers& ring = p.context.context;
  RingBlocks blocks(p, Scratch::key_value, Scratch::next_key_value);
  const Matrix sum =
      p.scratch.matrix(Scratch::query_sum, p.n.query(), Precision::fp32);
  const Matrix part =
      p.scratch.matrix(Scratch::part, p.n.query(), Precision::fp32);
  const Array part_sum = p.scratch.array(Scratch::part_sum, Precision::fp32);
  p.launch(Copy{own_keys(p), blocks.here()});
  for (int step = 0; step < ring.size(); ++step) {
    if (step + 1 < ring.size())
      ring.pass_on(Lane::compute, {blocks.leaving()}, {blocks.arriving()});
    if (step == 0) {
      attend_block(p, blocks.here(), step, sum, log_sum_of(p));
    } else {
      attend_block(p, blocks.here(), step, part, part_sum);
      p.launch(MergeAttention{sum, part, log_sum_of(p), part_sum, p.n.heads,
                              p.n.sequences});
    }
    blocks.turn();
  }
  p.launch(Copy{sum, attended_of(p)});
}

/// Gradients of one block of keys, with those of the queries added to a sum.
void attend_block_backward(const LayerPass& p, const Matrix& keys, int step,
                           const Matrix& keys_gradient) {
  const std::int64_t key = p.n.key();
  p.launch(AttentionBackward{
      .shape = shape_of(p, 1, p.context.own_positions, ring_keys(p, step)),
      .q = columns_of(projected_of(p), 0, p.n.query()),
      .k = columns_of(keys, 0, key),
      .v = columns_of(keys, key, key),
      .out_gradient =
          p.scratch.matrix(Scratch::attended, p.n.query(), p.dtype()),
      .log_sum = log_sum_of(p),
      .delta = p.scratch.array(Scratch::delta, Precision::fp32),
      .probabilities = {},
      .q_gradient =
          p.scratch.matrix(Scratch::query_sum, p.n.query(), Precision::fp32),
      .k_gradient = columns_of(keys_gradient, 0, key),
      .v_gradient = columns_of(keys_gradient, key, key),
      .accumulate = true});
}

/// Keys and values go around once more, and their gradients with them, a hop
/// later: those of a rank's own block stay and wait for what the others add.
void attend_ring_backward(const LayerPass& p) {
  const Peers& ring = p.context.context;
  const int last = ring.size() - 1;
  RingBlocks blocks(p, Scratch::key_value, Scratch::next_key_value);
  RingBlocks gradients(p, Scratch::key_value_gradient,
                       Scratch::next_key_value_gradient);
  const Matrix projected =
      p.scratch.matrix(Scratch::projected, p.n.projected(), p.dtype());
  const Matrix own_gradient = columns_of(projected, p.n.query(), 2 * p.n.key());
  const Array query_sum = p.scratch.array(Scratch::query_sum, Precision::fp32);
  p.launch(AttentionDelta{
      attended_of(p),
      p.scratch.matrix(Scratch::attended, p.n.query(), p.dtype()),
      p.scratch.array(Scratch::delta, Precision::fp32), p.n.heads,
      p.n.sequences});
  p.launch(Copy{own_keys(p), blocks.here()});
  p.launch(Fill{query_sum, 0});
  p.launch(Fill{p.scratch.array(Scratch::projected, p.dtype()), 0});
  p.launch(Fill{gradients.leaving(), 0});
  for (int step = 0; step <= last; ++step) {
    attend_block_backward(p, blocks.here(), step,
                          step == 0 ? own_gradient : gradients.here());
    std::vector<Array> leaving, arriving;
    if (step < last) {
      leaving.push_back(blocks.leaving());
      arriving.push_back(blocks.arriving());
    }
    if (step > 0) {
      leaving.push_back(gradients.leaving());
      arriving.push_back(gradients.arriving());
    }
    ring.pass_on(Lane::compute, leaving, arriving);
    blocks.turn();
    if (step > 0) gradients.turn();
  }
  p.launch(Copy{as_matrix(query_sum, p.n.query()),
                columns_of(projected, 0, p.n.query())});
  p.launch(Copy{gradients.here(), own_gradient, true});
}

/// A trade of all tokens of some heads for some tokens of all heads. Both sides
/// are matrices: [tokens, parts * columns] here cut by head, and
/// [parts * tokens, columns] there, whole sequences of this rank's heads.
class Trade {
 public:
  explicit Trade(const LayerPass& p)
      : p_(p),
        peers_(p.context.context),
        packed_(p.scratch.array(Scratch::packed, p.dtype())),
        unpacked_(p.scratch.array(Scratch::unpacked, p.dtype())) {}

  /// `spans` of columns of `here`, each cut evenly by peer, lie side by side in
  /// `there`.
  void to_heads(const Matrix& here, const std::vector<std::int64_t>& spans,
                const Matrix& there) const {
    for (int peer = 0; peer < peers_.size(); ++peer)
      copy_columns(here, spans, peer, part(packed_, peer, there.columns), true);
    exchange(there.columns);
    for (int peer = 0; peer < peers_.size(); ++peer)
      copy_rows(there, peer, part(unpacked_, peer, there.columns), false);
  }
  void to_tokens(const Matrix& there, const std::vector<std::int64_t>& spans,
                 const Matrix& here) const {
    for (int peer = 0; peer < peers_.size(); ++peer)
      copy_rows(there, peer, part(packed_, peer, there.columns), true);
    exchange(there.columns);
    for (int peer = 0; peer < peers_.size(); ++peer)
      copy_columns(here, spans, peer, part(unpacked_, peer, there.columns),
                   false);
  }

 private:
  Matrix part(const Array& buffer, int peer, std::int64_t columns) const {
    const std::int64_t size = p_.n.tokens * columns;
    return as_matrix(slice(buffer, peer * size, size), columns);
  }

  void move(const Matrix& tensor, const Matrix& packed, bool packs) const {
    if (packs)
      p_.launch(Copy{tensor, packed});
    else
      p_.launch(Copy{packed, tensor});
  }

  void copy_columns(const Matrix& here, const std::vector<std::int64_t>& spans,
                    int peer, const Matrix& packed, bool packs) const {
    std::int64_t from = 0, into = 0;
    for (const std::int64_t span : spans) {
      const std::int64_t share = span / peers_.size();
      move(columns_of(here, from + peer * share, share),
           columns_of(packed, into, share), packs);
      from += span;
      into += share;
    }
  }

  /// Of each whole sequence the tokens that `peer` owns.
  void copy_rows(const Matrix& there, int peer, const Matrix& packed,
                 bool packs) const {
    const std::int64_t sequence = there.rows / p_.n.sequences;
    const std::int64_t share = sequence / peers_.size();
    for (std::int64_t i = 0; i < p_.n.sequences; ++i)
      move(rows_of(there, i * sequence + peer * share, share),
           rows_of(packed, i * share, share), packs);
  }

  void exchange(std::int64_t columns) const {
    const std::int64_t each = p_.n.tokens * columns;
    const std::vector<std::int64_t> counts(
        static_cast<std::size_t>(peers_.size()), each);
    const std::int64_t all = each * peers_.size();
    const Array out = slice(packed_, 0, all);
    peers_.all_to_all(Lane::compute, out, counts, slice(unpacked_, 0, all),
                      counts, out);
  }

  const LayerPass& p_;
  const Peers& peers_;
  Array packed_, unpacked_;
};

/// Whole sequences of one context rank's heads.
WholeAttention traded(const LayerPass& p) {
  const Indices& all = p.context.whole_positions;
  const std::int64_t parts = p.context.context.size();
  return {shape_of(p, parts, all, all),
          p.saved.matrix(Saved::traded, p.n.projected() / parts, p.dtype()),
          p.saved.matrix(Saved::traded_out, p.n.query() / parts, p.dtype())};
}

void attend_ulysses(const LayerPass& p) {
  const Trade trade(p);
  const WholeAttention there = traded(p);
  trade.to_heads(projected_of(p), {p.n.query(), p.n.key(), p.n.key()},
                 there.projected);
  run_attention(p, there);
  trade.to_tokens(there.out, {p.n.query()}, attended_of(p));
}

void attend_ulysses_backward(const LayerPass& p) {
  const Trade trade(p);
  const WholeAttention there = traded(p);
  const Matrix out_gradient = as_matrix(
      p.scratch.array(Scratch::traded_gradient, p.dtype()), there.query());
  trade.to_heads(p.scratch.matrix(Scratch::attended, p.n.query(), p.dtype()),
                 {p.n.query()}, out_gradient);
  // Gradients of what was projected are traded back to where they lie.
  const Matrix gradient = p.scratch.matrix(
      Scratch::projected, there.query() + 2 * there.key(), p.dtype());
  run_attention_backward(p, there, out_gradient, gradient);
  trade.to_tokens(
      gradient, {p.n.query(), p.n.key(), p.n.key()},
      p.scratch.matrix(Scratch::projected, p.n.projected(), p.dtype()));
}

}  // namespace

void attend(const LayerPass& p) {
  if (is_ring(p)) return attend_ring(p);
  if (is_ulysses(p)) return attend_ulysses(p);
  run_attention(p, here(p));
}

void attend_backward(const LayerPass& p) {
  if (is_ring(p)) return attend_ring_backward(p);
  if (is_ulysses(p)) return attend_ulysses_backward(p);
  run_attention_backward(
      p, here(p), p.scratch.matrix(Scratch::attended, p.n.query(), p.dtype()),
      p.scratch.matrix(Scratch::projected, p.n.projected(), p.dtype()));
}

}  // namespace ztplan
