// Constants of NCCL's tuning model, as its source has them. Times in
// microseconds, rates in GB/s (10^9), as there.
// Source: NCCL 2.28.9 and 2.30.7, src/graph/tuning.cc.
#pragma once

#include <array>

namespace ztplan::nccl {

using PerProtocol = std::array<double, 3>;  // LL, LL128, Simple
using PerScale = std::array<double, 3>;     // one node, two nodes, more

constexpr PerProtocol kTreeBase{6.8, 14.0, 8.4};
constexpr PerProtocol kRingBase{6.6, 14.0, 8.4};

/// Latency of one step over one kind of link.
struct StepLatency {
  PerProtocol tree, ring;
};
constexpr StepLatency kNvlinkStep{{0.6, 1.25, 4.0}, {0.6, 1.9, 3.4}};
constexpr StepLatency kPcieStep{{1.0, 1.9, 4.0}, {1.0, 2.5, 5.7}};
constexpr StepLatency kNetworkStep{{5.0, 8.5, 14.0}, {2.7, 4.0, 14.0}};
constexpr double kNvlsLatency = 25.0;
constexpr double kNvlsTreeNetworkStep = 20.9;
constexpr double kNetworkPost = 1.0;  // overhead of one post, Intel CPU
constexpr int kSimplePosts = 3;       // a step of Simple posts as often

/// Bandwidth caps of one GPU generation; `per channel` ones times channels.
struct Caps {
  double ll_one_node;       // all channels; on more nodes the CPU decides
  PerScale ring_ll128;      // per channel
  PerScale tree_ll128;      // per channel
  PerScale tree_simple;     // per channel
  PerScale nvls_tree;       // per channel; 0: not there
  double nvls_efficiency;   // 0: not there
  double nvls_per_channel;  // fastest speed the search tries
  int channels;             // of a ring graph on one node
};
// Indexed by Generation: Volta, Ampere, Hopper, Blackwell. NVLS tree has no
// entry of its own for one node, where it does not run.
constexpr std::array<Caps, 4> kCaps{{
    {39.0, {20, 20, 20}, {20, 20, 20}, {26.5, 18.5, 10}, {}, 0, 0, 6},
    {87.7, {20, 20, 20}, {20, 20, 20}, {24, 23.6, 17.8}, {}, 0, 0, 12},
    {141.0,
     {36.7, 36.7, 36.7},
     {36.7, 36.7, 29},
     {38.7, 41.4, 36},
     {0, 57.7, 45.5},
     0.85,
     60,
     12},
    {282.0,
     {40, 40, 40},
     {55.6, 31.67, 20},
     {70, 42.8, 24},
     {0, 96, 80},
     0.74,
     90,
     16},
}};
constexpr PerScale kLlAcrossNodes{0, 39.0, 20.4};  // Intel or unknown CPU

/// A tree runs slower at medium sizes: factors at 2^6, 2^7, ... 2^28 bytes.
using TreeFactors = std::array<double, 23>;
constexpr TreeFactors kTreeLl{1,  1,  1,  1,  .9, .8, .7, .7, .7, .7, .6, .5,
                              .4, .4, .5, .6, .7, .8, .9, 1,  1,  1,  1};
constexpr TreeFactors kTreeLl128{1,  1,  1,  1,  1,  .9, .8, .8, .8, .7, .6, .6,
                                 .6, .6, .6, .6, .8, .9, .9, .9, .9, 1,  1};
constexpr TreeFactors kTreeSimple{.9, .9, .9, .9, .9, .9, .9, .8,
                                  .7, .6, .6, .5, .5, .5, .5, .6,
                                  .7, .8, .7, .7, .8, .9, .9};

}  // namespace ztplan::nccl
