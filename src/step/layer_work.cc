#include "step/layer_work.h"

#include <cmath>

#include "step/work_writer.h"

namespace ztplan {
namespace {

// Bytes per 16-bit element of the mask, beside the sum it is part of.
constexpr int kDropoutMask = 1;
// bias * weight 4; + in 2 + 4, out 4; joined 4 + 4; rounded 4 + 2. Backward:
// widened 2 + 4, narrowed 4 + 2, times weight and times bias 4 + 4 each, both
// summed 4 each, joined 2 + 2.
constexpr int kBiasForward = 28, kBiasBackward = 40;
// Of the two halves of a gated input: clamped 2 + 2 each, joined 2 + 2 each.
// Backward: 2 + 2 + 2 each, joined 2 + 2 each.
constexpr int kClampForward = 16, kClampBackward = 20;
// Balanced rows of an expert are no mean of real ones: narrow products get them
// padded, and no 16-bit one has them as its leading dimension. Source:
// Transformer Engine, pytorch/module/fp8_padding.py, align_size.
constexpr std::int64_t kRowsPadded = 32;
// Rows of an expert up to a multiple of what fp8 products need, and back.
// Source: Transformer Engine, pytorch/module/fp8_padding.py and
// fp8_unpadding.py.
constexpr int kPad = 4;

int local(int heads, int tensor) {
  return static_cast<int>(divide_up(heads, tensor));
}

/// The works of one layer on one device.
class LayerWriter {
 public:
  LayerWriter(const Setting& setting, const Layer& layer,
              const Strategy& strategy)
      : write_(setting, strategy),
        layer_(layer),
        model_(setting.model),
        hidden_(model_.hidden),
        strategy_(strategy),
        sequence_(setting.workload.sequence),
        kernel_(setting.workload.attention),
        framework_(setting.workload.framework) {}

  Recipe forward() &&;
  Recipe backward() &&;

 private:
  void forward_all();
  void again();
  void again_parts();
  void again_modules();
  void again_op();
  void norms(Operation what);
  void residual(Direction direction);
  void attention_forward();
  void attention_backward();
  void project_queries(Direction direction);
  void project_output(Direction direction);
  void latent(Direction direction);
  void queries_up(Direction direction);
  void keys_up(Direction direction, std::int64_t gathered);
  void linear(Direction direction, const Linear& linear);
  void adapt_attention(Direction direction);
  void adapt_mlp(std::int64_t width, std::int64_t tensor, std::int64_t rows,
                 std::int64_t experts, Direction direction);
  void core(Direction direction);
  void blocks(AttentionWork work, int count);
  void turn_ring(Bytes block, Direction direction);
  void rotate();
  void trade(std::int64_t width);
  void trade_projections();
  void trade_output();
  std::int64_t attended() const;
  void feed_forward(Direction direction);
  void mlp(std::int64_t width, Direction direction);
  void experts(Direction direction);
  void share_rows(CollectiveOp op, std::int64_t rows);
  void expert_products(std::int64_t rows, Direction direction);
  void bias_experts(std::int64_t rows, std::int64_t width, Direction direction);
  std::int64_t busiest(std::int64_t rows) const;
  void count_rows();
  void dispatch(std::int64_t rows);
  std::int64_t sent_rows(std::int64_t rows) const;
  void activation(std::int64_t elements, Direction direction);
  int attentions() const { return layer_.attention.cross ? 2 : 1; }
  std::int64_t projected_keys() const;
  int kernels() const;
  int expert_kernels() const;

  WorkWriter write_;
  const Layer& layer_;
  const ModelSpec& model_;
  std::int64_t hidden_;
  const Strategy& strategy_;
  std::int64_t sequence_;
  AttentionKernel kernel_;
  const Framework& framework_;
};

int LayerWriter::kernels() const {
  const int dense = kernel_ != AttentionKernel::eager
                        ? framework_.fused_kernels
                        : framework_.eager_kernels;
  return layer_.ffn.is_moe() ? dense + expert_kernels() : dense;
}

int LayerWriter::expert_kernels() const {
  const int experts =
      static_cast<int>(divide_up(layer_.ffn.experts, strategy_.expert));
  const bool casts =
      is_narrow(write_.workload().precision) && !framework_.fused_experts;
  return framework_.expert_kernels +
         experts * (framework_.kernels_per_expert +
                    (casts ? framework_.casts_per_expert : 0));
}

void LayerWriter::norms(Operation what) {
  write_.pass(what, layer_.norms * write_.cut_tokens() * hidden_);
}

/// The sum at the end of a block, with the dropout of what is added. Its own
/// gradient is the norm's.
void LayerWriter::residual(Direction direction) {
  const std::int64_t elements = write_.cut_tokens() * hidden_;
  if (direction == Direction::forward)
    write_.pass(Operation::residual, elements,
                fused_bytes(Operation::residual) +
                    (framework_.dropout ? kDropoutMask : 0));
  else if (framework_.dropout)
    write_.pass(Operation::dropout, elements);
}

void LayerWriter::linear(Direction direction, const Linear& linear) {
  write_.dequantize(linear.batch * linear.outputs * linear.inputs);
  if (direction == Direction::forward)
    write_.forward(linear);
  else
    write_.backward(linear);
}

/// Width of the key and value projections of one device. Heads are repeated
/// where the tensor group is larger than their number.
std::int64_t LayerWriter::projected_keys() const {
  const Attention& a = layer_.attention;
  return 2 * static_cast<std::int64_t>(local(a.kv_heads, strategy_.tensor)) *
         a.head_size;
}

/// Low-rank projections of latent attention: down on this device's share of
/// the sequence, up to its heads on all of it.
/// Source: DeepSeek-V2, arXiv 2405.04434, section 2.1.
void LayerWriter::latent(Direction direction) {
  const Latent& l = layer_.attention.latent;
  const std::int64_t rank = l.kv_rank + l.rope_size;
  if (l.q_rank > 0) linear(direction, {write_.cut_tokens(), l.q_rank, hidden_});
  queries_up(direction);
  linear(direction, {write_.cut_tokens(), rank, hidden_});
  keys_up(direction, rank);
}

/// Out of their latent, or of the stream where they have none.
void LayerWriter::queries_up(Direction direction) {
  const Attention& a = layer_.attention;
  const std::int64_t size = a.latent.nope_size + a.latent.rope_size;
  const std::int64_t from = a.latent.q_rank > 0 ? a.latent.q_rank : hidden_;
  linear(direction, {write_.tokens(), local(a.heads, strategy_.tensor) * size,
                     from, 1, Cut::column, from});
}

/// Keys and values, `gathered` wide where sequence parallelism cuts latents.
void LayerWriter::keys_up(Direction direction, std::int64_t gathered) {
  const Attention& a = layer_.attention;
  const std::int64_t size = a.latent.nope_size + a.latent.value_size;
  linear(direction, {write_.tokens(), local(a.heads, strategy_.tensor) * size,
                     a.latent.kv_rank, 1, Cut::column, gathered});
}

void LayerWriter::project_queries(Direction direction) {
  const Attention& a = layer_.attention;
  if (a.is_latent()) return latent(direction);
  const std::int64_t query =
      static_cast<std::int64_t>(local(a.heads, strategy_.tensor)) * a.head_size;
  linear(direction, {write_.tokens(), query + projected_keys(), hidden_, 1,
                     Cut::column, hidden_});
}

void LayerWriter::project_output(Direction direction) {
  const Attention& a = layer_.attention;
  const std::int64_t size = a.is_latent() ? a.latent.value_size : a.head_size;
  linear(direction,
         {write_.tokens(), hidden_, local(a.heads, strategy_.tensor) * size, 1,
          Cut::row, hidden_});
}

void LayerWriter::adapt_attention(Direction direction) {
  write_.adapt(direction,
               adapted_attention(model_, layer_.attention,
                                 write_.workload().adapters, strategy_.tensor),
               write_.tokens(), 1);
}

void LayerWriter::adapt_mlp(std::int64_t width, std::int64_t tensor,
                            std::int64_t rows, std::int64_t experts,
                            Direction direction) {
  write_.adapt(direction,
               adapted_mlp(model_, width, layer_.ffn.gated,
                           write_.workload().adapters, tensor),
               rows, experts);
}

/// Attention itself, with context parallelism. A ring passes keys and values
/// around beside the blocks (arXiv 2310.01889); backward also carries their
/// gradients. Ulysses (arXiv 2309.14509) trades sequence for heads around it.
void LayerWriter::core(Direction direction) {
  const Attention& a = layer_.attention;
  const bool ring = strategy_.context_kind == ContextKind::ring;
  const int c = strategy_.context;
  AttentionWork work;
  work.sequences = strategy_.micro_batch;
  work.queries = work.keys = divide_up(sequence_, ring ? c : 1);
  work.heads = local(local(a.heads, strategy_.tensor), ring ? 1 : c);
  work.kv_heads = local(local(a.kv_heads, strategy_.tensor), ring ? 1 : c);
  work.qk_size =
      a.is_latent() ? a.latent.nope_size + a.latent.rope_size : a.head_size;
  work.v_size = a.is_latent() ? a.latent.value_size : a.head_size;
  work.window = a.window;
  work.causal = a.causal;
  work.direction = direction;
  work.kernel = kernel_;
  work.skips_mask = framework_.skips_mask;
  work.precision = weight_dtype(write_.workload().precision);
  const bool forward = direction == Direction::forward;
  if (!ring) forward ? trade_projections() : trade_output();
  blocks(work, ring ? c : 1);
  if (!ring) return forward ? trade_output() : trade_projections();
  const std::int64_t keys =
      a.is_latent()
          ? static_cast<std::int64_t>(work.heads) * (work.qk_size + work.v_size)
          : projected_keys();
  turn_ring(Bytes{write_.tokens() * keys * write_.width()}, direction);
}

/// Keys and values go once around less one hop. So do their gradients, a hop
/// later: those of a rank's own block stay. Source: TransformerEngine,
/// attention/dot_product_attention/context_parallel.py,
/// AttnFuncWithCPAndKVP2P.backward.
void LayerWriter::turn_ring(Bytes block, Direction direction) {
  const int hops = strategy_.context - 1;
  const auto hop = [&](Bytes bytes, std::int64_t count) {
    write_.collective(TimeTerm::context_comm, CollectiveOp::send_receive,
                      context_group(strategy_), bytes, count, 1);
  };
  if (direction == Direction::forward) return hop(block, hops);
  hop(block, 1);
  hop(2 * block, hops - 1);
  hop(block, 1);
}

/// `count` blocks of keys come by. Balanced ranks see half of each under a
/// causal mask; else the last rank, which all wait for, sees all but one whole.
void LayerWriter::blocks(AttentionWork work, int count) {
  if (!work.causal || framework_.balances_ring || count == 1)
    return write_.attention(work, count);
  write_.attention(work, 1);
  work.causal = false;
  write_.attention(work, count - 1);
}

/// The all-to-alls around attention: queries, keys and values cross before it
/// and its output after; their gradients the other way.
void LayerWriter::trade(std::int64_t width) {
  write_.collective(TimeTerm::context_comm, CollectiveOp::all_to_all,
                    context_group(strategy_),
                    Bytes{write_.tokens() * width * write_.width()}, 1, 0);
}

std::int64_t LayerWriter::attended() const {
  const Attention& a = layer_.attention;
  const std::int64_t size = a.is_latent() ? a.latent.value_size : a.head_size;
  return local(a.heads, strategy_.tensor) * size;
}

void LayerWriter::trade_projections() { trade(attended() + projected_keys()); }
void LayerWriter::trade_output() { trade(attended()); }

/// Positions of queries and keys; its own gradient is the inverse.
void LayerWriter::rotate() {
  if (model_.positions != Positions::rotary) return;
  const Attention& a = layer_.attention;
  const std::int64_t query =
      static_cast<std::int64_t>(local(a.heads, strategy_.tensor)) * a.head_size;
  write_.pass(Operation::rotary,
              write_.tokens() * (query + projected_keys() / 2));
}

void LayerWriter::attention_forward() {
  for (int i = 0; i < attentions(); ++i) {
    project_queries(Direction::forward);
    rotate();
    core(Direction::forward);
    project_output(Direction::forward);
    adapt_attention(Direction::forward);
    residual(Direction::forward);
  }
}

void LayerWriter::attention_backward() {
  for (int i = 0; i < attentions(); ++i) {
    residual(Direction::backward);
    adapt_attention(Direction::backward);
    project_output(Direction::backward);
    core(Direction::backward);
    rotate();
    project_queries(Direction::backward);
  }
}

void LayerWriter::activation(std::int64_t elements, Direction direction) {
  const bool forward = direction == Direction::forward;
  if (layer_.ffn.gated)
    write_.pass(forward ? Operation::gated : Operation::gated_backward,
                elements);
  else
    write_.pass(
        forward ? Operation::activation : Operation::activation_backward,
        elements);
}

void LayerWriter::mlp(std::int64_t width, Direction direction) {
  const std::int64_t share = divide_up(width, strategy_.tensor);
  const std::int64_t up = layer_.ffn.gated ? 2 * share : share;
  const Linear in{write_.tokens(), up, hidden_, 1, Cut::column, hidden_};
  const Linear out{write_.tokens(), hidden_, share, 1, Cut::row, hidden_};
  const bool forward = direction == Direction::forward;
  linear(direction, forward ? in : out);
  activation(write_.tokens() * share, direction);
  linear(direction, forward ? out : in);
  adapt_mlp(width, strategy_.tensor, write_.tokens(), 1, direction);
}

/// Rows that leave for other ranks, of `rows` of the experts chosen. Of a token
/// whose k experts lie anywhere among n ranks, n(1 - (1 - 1/n)^k) ranks have
/// one. Source: DeepEP, csrc/kernels (a token is sent to each rank once).
std::int64_t LayerWriter::sent_rows(std::int64_t rows) const {
  if (!framework_.sends_once) return rows;
  const double ranks = strategy_.expert, chosen = layer_.ffn.top_k;
  const double reached = ranks * (1 - std::pow(1 - 1 / ranks, chosen));
  return std::llround(static_cast<double>(rows) * reached / chosen);
}

void LayerWriter::dispatch(std::int64_t rows) {
  const bool by_rank = strategy_.expert > 1 && !framework_.sends_once;
  // One row in, one row out: by rank before the exchange, by expert after it.
  // Source: Megatron-LM core/transformer/moe/token_dispatcher.py.
  write_.pass(Operation::dispatch, (by_rank ? 2 : 1) * rows * hidden_);
  if (is_narrow(write_.workload().precision) && !framework_.fused_experts)
    write_.pass(Operation::copy, rows * hidden_, kPad);
  write_.collective(TimeTerm::expert_comm, CollectiveOp::all_to_all,
                    expert_group(strategy_),
                    Bytes{sent_rows(rows) * hidden_ * write_.width()}, 1, 0);
}

/// Rows of all ranks that share an expert: gathered before it, summed after.
/// Source: Megatron-LM core/transformer/moe/token_dispatcher.py
/// (MoEAlltoAllTokenDispatcher, the expert tensor group).
void LayerWriter::share_rows(CollectiveOp op, std::int64_t rows) {
  write_.collective(
      TimeTerm::expert_comm, op, expert_tensor_group(strategy_),
      Bytes{strategy_.expert_tensor * rows * hidden_ * write_.width()}, 1, 0);
}

/// Products of the experts of this device over `rows` balanced rows.
void LayerWriter::expert_products(std::int64_t rows, Direction direction) {
  const FeedForward& f = layer_.ffn;
  const std::int64_t experts = divide_up(f.experts, strategy_.expert);
  const std::int64_t each =
      kRowsPadded * divide_up(divide_up(rows, experts), kRowsPadded);
  const std::int64_t width = divide_up(f.expert_width, strategy_.expert_tensor);
  const std::int64_t up = f.gated ? 2 * width : width;
  Linear in{each, up, hidden_, experts};
  Linear out{each, hidden_, width, experts};
  in.routed = out.routed = true;
  const bool forward = direction == Direction::forward;
  linear(direction, forward ? in : out);
  activation(rows * width, direction);
  linear(direction, forward ? out : in);
  bias_experts(rows, width, direction);
  adapt_mlp(f.expert_width, strategy_.expert_tensor, each, experts, direction);
}

/// Biases and clamps of experts, which no grouped product takes in: each
/// expert's output is cut out, its bias is weighed by the router in fp32,
/// added, and all are joined and rounded; both halves of a gated input are
/// clamped and joined. Backward the same, with sums over rows. Source:
/// Megatron-LM core/transformer/ moe/experts.py (TEGroupedMLP._apply_bias),
/// core/fusions/fused_bias_geglu.py (weighted_bias_quick_geglu_impl).
void LayerWriter::bias_experts(std::int64_t rows, std::int64_t width,
                               Direction direction) {
  const FeedForward& f = layer_.ffn;
  if (framework_.fused_experts) return;
  const bool forward = direction == Direction::forward;
  if (f.bias)
    write_.pass(Operation::residual, rows * hidden_,
                forward ? kBiasForward : kBiasBackward);
  if (f.clamped)
    write_.pass(Operation::copy, rows * width,
                forward ? kClampForward : kClampBackward);
}

/// Rows of the rank that all others wait for.
std::int64_t LayerWriter::busiest(std::int64_t rows) const {
  return std::llround(static_cast<double>(rows) *
                      write_.workload().expert_load);
}

/// Ranks tell each other how many rows each expert gets, and sum them over the
/// micro-batch for the balance loss. Source: Megatron-LM core/transformer/moe,
/// token_dispatcher.py (preprocess) and moe_utils.py (tokens_per_expert).
void LayerWriter::count_rows() {
  constexpr std::int64_t kCount = 4;  // bytes
  const Bytes counts{kCount * layer_.ffn.experts};
  write_.collective(TimeTerm::expert_comm, CollectiveOp::all_gather,
                    expert_cut_group(strategy_), counts * expert_cut(strategy_),
                    1, 0);
  if (strategy_.sequence_parallel)
    write_.collective(TimeTerm::tensor_comm, CollectiveOp::all_reduce,
                      tensor_group(strategy_), counts, 1, 0);
  write_.collective(TimeTerm::context_comm, CollectiveOp::all_reduce,
                    context_group(strategy_), counts, 1, 0);
}

/// Router, dispatch, experts and combine. A rank routes the tokens it owns, a
/// share of the sequence within a tensor group. Exchanges and products are
/// those of the busiest rank.
void LayerWriter::experts(Direction direction) {
  const FeedForward& f = layer_.ffn;
  const std::int64_t owned = divide_up(write_.tokens(), strategy_.tensor);
  const std::int64_t rows = busiest(owned * f.top_k);
  // In fp32 or 16 bits. Source: Megatron-LM core/transformer/moe/router.py.
  Linear router{owned, f.experts, hidden_};
  router.wide = true;
  linear(direction, router);
  if (direction == Direction::forward) count_rows();
  dispatch(rows);
  share_rows(CollectiveOp::all_gather, rows);
  expert_products(strategy_.expert_tensor * rows, direction);
  share_rows(CollectiveOp::reduce_scatter, rows);
  dispatch(rows);
  if (f.shared_width > 0) mlp(f.shared_width, direction);
}

void LayerWriter::feed_forward(Direction direction) {
  if (layer_.ffn.is_moe())
    experts(direction);
  else
    mlp(layer_.ffn.width, direction);
}

void LayerWriter::forward_all() {
  norms(Operation::norm);
  attention_forward();
  feed_forward(Direction::forward);
  residual(Direction::forward);
  write_.launches(kernels());
}

/// Norms, activation, and the products that are not kept: keys, attention
/// output, the second of a gated MLP. Source: torchtitan,
/// distributed/activation_checkpoint.py (every second aten.mm).
void LayerWriter::again_op() {
  const FeedForward& f = layer_.ffn;
  norms(Operation::norm);
  for (int i = 0; i < attentions(); ++i) {
    write_.forward({write_.tokens(), projected_keys() / 2, hidden_});
    project_output(Direction::forward);
  }
  const std::int64_t width = divide_up(
      f.is_moe() ? f.top_k * f.expert_width + f.shared_width : f.width,
      strategy_.tensor);
  if (f.gated) write_.forward({write_.tokens(), width, hidden_});
  activation(write_.tokens() * width, Direction::forward);
}

/// Modules that are run again whole, with what they exchange: up-projections
/// after the rotary key is gathered, an MLP with the norm that is joined to it,
/// a layer of experts from its router to its sum. Shared experts within a
/// recomputed layer of experts are run twice more. Source: Megatron-LM core/
/// transformer, multi_latent_attention.py, transformer_layer.py, moe/
/// moe_layer.py.
void LayerWriter::again_modules() {
  const Recompute& r = strategy_.recompute;
  const FeedForward& f = layer_.ffn;
  if (r.mla_up_proj && layer_.attention.is_latent()) {
    queries_up(Direction::forward);
    keys_up(Direction::forward, layer_.attention.latent.kv_rank);
    rotate();
  }
  if (r.mlp && !f.is_moe()) {
    if (!r.norms && layer_.norms > 1)
      write_.pass(Operation::norm, write_.cut_tokens() * hidden_);
    mlp(f.width, Direction::forward);
  }
  if (r.moe && f.is_moe()) {
    experts(Direction::forward);
    write_.launches(expert_kernels());
  }
  if (r.shared_experts && f.is_moe() && f.shared_width > 0)
    mlp(f.shared_width, Direction::forward);
}

/// What selective recomputation names.
void LayerWriter::again_parts() {
  const Recompute& r = strategy_.recompute;
  if (r.attention)
    for (int i = 0; i < attentions(); ++i) core(Direction::forward);
  if (r.op) again_op();
  if (r.norms) norms(Operation::norm);
  if (r.activation) {
    const FeedForward& f = layer_.ffn;
    const std::int64_t width =
        f.is_moe() ? f.top_k * f.expert_width + f.shared_width : f.width;
    activation(divide_up(write_.tokens() * width, strategy_.tensor),
               Direction::forward);
  }
  again_modules();
}

/// What backward runs again because forward threw it away.
void LayerWriter::again() {
  write_.recompute(true);
  switch (strategy_.recompute.mode) {
    case Recompute::Mode::none:
      break;
    case Recompute::Mode::selective:
      again_parts();
      break;
    case Recompute::Mode::full:
      forward_all();
      break;
  }
  write_.recompute(false);
}

Recipe LayerWriter::forward() && {
  forward_all();
  return std::move(write_).take("forward of a layer");
}

Recipe LayerWriter::backward() && {
  again();
  residual(Direction::backward);
  feed_forward(Direction::backward);
  attention_backward();
  norms(Operation::norm_backward);
  write_.launches(2L * kernels());
  return std::move(write_).take("backward of a layer");
}

}  // namespace

Recipe layer_forward(const Setting& setting, const Layer& layer,
                     const Strategy& strategy) {
  return LayerWriter(setting, layer, strategy).forward();
}

Recipe layer_backward(const Setting& setting, const Layer& layer,
                      const Strategy& strategy) {
  return LayerWriter(setting, layer, strategy).backward();
}

}  // namespace ztplan
