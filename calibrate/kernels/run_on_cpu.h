// The CPU's twin of every kernel, one overload each.
#pragma once

#include "calibrate/kernels/kernel.h"

namespace ztplan::kernels {

void run(const Product& kernel);
void run(const AddRow& kernel);
void run(const SumRows& kernel);
void run(const Embed& kernel);
void run(const EmbedBackward& kernel);
void run(const NormForward& kernel);
void run(const NormBackward& kernel);
void run(const Add& kernel);
void run(const Scale& kernel);
void run(const Fill& kernel);
void run(const Copy& kernel);
void run(const Rotate& kernel);
void run(const AttentionForward& kernel);
void run(const MergeAttention& kernel);
void run(const AttentionDelta& kernel);
void run(const AttentionBackward& kernel);
void run(const ActivationForward& kernel);
void run(const ActivationBackward& kernel);
void run(const LossMaximum& kernel);
void run(const LossSum& kernel);
void run(const LossTotal& kernel);
void run(const LossGradient& kernel);
void run(const AdamW& kernel);
void run(const SquareSum& kernel);
void run(const Route& kernel);
void run(const RouteBackward& kernel);
void run(const BalanceSum& kernel);
void run(const GatherRows& kernel);
void run(const ScatterRows& kernel);
void run(const DotRows& kernel);
void run(const SelectLargest& kernel);
void run(const AddAtPlaces& kernel);

}  // namespace ztplan::kernels
