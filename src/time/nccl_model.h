// NCCL's own plan of a collective: latency and bandwidth of every algorithm
// and protocol it could run over a span. What was measured on top of it is
// collective.cc's.
#pragma once

#include "base/units.h"
#include "step/work.h"
#include "time/collective.h"
#include "time/span.h"

namespace ztplan {

/// One way to run it. Its planned time is the sum of the three: what the steps
/// cost, what the network's transport adds to them, bytes over bandwidth.
struct NcclPlan {
  Algorithm algorithm = Algorithm::ring;
  Protocol protocol = Protocol::simple;
  Seconds latency;
  Seconds transport;
  Seconds transfer;
};

/// A ring; all_reduce, all_gather and reduce_scatter. Requires ranks > 1.
NcclPlan plan_ring(CollectiveOp op, Bytes bytes, Protocol protocol,
                   const Span& span);

/// Trees between nodes and chains inside; all_reduce only. Requires ranks > 1.
NcclPlan plan_tree(Bytes bytes, Protocol protocol, const Span& span);

/// Reduction in the switch of one node, or of each node with a tree between;
/// all_reduce only. Requires can_run_nvls(span).
NcclPlan plan_nvls(Bytes bytes, const Span& span);
bool can_run_nvls(const Span& span);

/// LL128 needs NVLink between the devices of a machine.
bool can_run(Protocol protocol, const Span& span);

}  // namespace ztplan
