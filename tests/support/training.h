// Trains a small model with a strategy, ranks as threads of the test, and tells
// what came out.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "exec/cpu_device.h"
#include "exec/rank_engine.h"

namespace ztplan {

struct TrainingCase {
  std::string model;     // as --model takes it
  std::string strategy;  // as --strategy does
  Precision precision = Precision::fp32;
  int sequence = 16;
  int global_batch = 8;
  int steps = 3;
  CpuLanes lanes = CpuLanes::immediate;
  std::string weights{};  // a file of safetensors that has the first ones, as
                          // "weight.NAME" of fp32; none: those of a seed. One
                          // rank alone
  std::int64_t windows = 0;  // of data, then the same again; 0: ever others
};

/// A parameter of the model put together from the ranks that hold it: its
/// values, gradients after the first step and Adam's moments, row by row.
struct WholeTensor {
  std::vector<float> weights, gradients, first_moment, second_moment;
};

struct Training {
  std::vector<double> losses, gradient_norms;  // by step
  std::vector<double> balances;                // likewise, of experts
  std::map<std::string, WholeTensor> tensors;  // by name
  std::vector<std::string> differences;  // between what was planned and ran:
                                         // calls and bytes of collectives, peak
                                         // bytes by term, of every rank; and
                                         // weights that ranks hold unequally
  std::int64_t compared = 0;  // elements of weights, with another rank's, after
                              // every step
};

/// Whether the executor runs it, on at most `most` ranks.
bool is_legal(const TrainingCase& what, int most);

/// Throws `Error` where the strategy is illegal or a rank fails.
Training train(const TrainingCase& what);

}  // namespace ztplan
