#include "step/layer_work.h"
#include "step/work_writer.h"

namespace ztplan {
namespace {

constexpr int kLossScalars = 3;  // maximum, target logit, sum: 4 bytes a token
constexpr int kEndKernels = 10;

/// The output layer is no module of the library that casts, or is left out of
/// it. Source: Megatron-LM core/models/gpt/gpt_model.py (output_layer, a
/// ColumnParallelLinear of its own); torchtitan, docs/float8.md (filter_fqns).
Linear head(const WorkWriter& write, const Setting& setting,
            const Strategy& strategy, std::int64_t vocab) {
  return {write.tokens(),
          divide_up(vocab, strategy.tensor),
          setting.model.hidden,
          1,
          Cut::column,
          setting.model.hidden,
          false,
          true};
}

void embedding_sum(WorkWriter& write, const Setting& setting,
                   const Strategy& strategy, CollectiveOp cut_op, bool always) {
  const Bytes bytes{write.tokens() * setting.model.hidden * write.width()};
  if (strategy.sequence_parallel)
    write.collective(TimeTerm::tensor_comm, cut_op, tensor_group(strategy),
                     bytes, 1, 0);
  else if (always)
    write.collective(TimeTerm::tensor_comm, CollectiveOp::all_reduce,
                     tensor_group(strategy), bytes, 1, 0);
}

}  // namespace

Recipe embedding_forward(const Setting& setting, const Strategy& strategy) {
  WorkWriter write(setting, strategy);
  write.pass(Operation::embedding, write.tokens() * setting.model.hidden);
  embedding_sum(write, setting, strategy, CollectiveOp::reduce_scatter, true);
  write.launches(kEndKernels);
  return std::move(write).take("embedding");
}

Recipe embedding_backward(const Setting& setting, const Strategy& strategy) {
  WorkWriter write(setting, strategy);
  write.weights(true);
  embedding_sum(write, setting, strategy, CollectiveOp::all_gather, false);
  write.pass(Operation::embedding_backward,
             write.tokens() * setting.model.hidden);
  write.launches(kEndKernels);
  return std::move(write).take("embedding gradient");
}

Recipe head_forward(const Setting& setting, const Strategy& strategy,
                    std::int64_t vocab) {
  WorkWriter write(setting, strategy);
  const Linear product = head(write, setting, strategy, vocab);
  write.pass(Operation::norm, write.cut_tokens() * setting.model.hidden);
  write.forward(product);
  write.pass(Operation::loss, write.tokens() * product.outputs);
  write.collective(TimeTerm::tensor_comm, CollectiveOp::all_reduce,
                   tensor_group(strategy), Bytes{4 * write.tokens()},
                   kLossScalars, 0);
  write.launches(kEndKernels);
  return std::move(write).take("head and loss");
}

Recipe head_backward(const Setting& setting, const Strategy& strategy,
                     std::int64_t vocab) {
  WorkWriter write(setting, strategy);
  const Linear product = head(write, setting, strategy, vocab);
  write.pass(Operation::loss_backward, write.tokens() * product.outputs);
  write.backward(product);
  write.pass(Operation::norm_backward,
             write.cut_tokens() * setting.model.hidden);
  write.launches(2L * kEndKernels);
  return std::move(write).take("head gradient");
}

}  // namespace ztplan
