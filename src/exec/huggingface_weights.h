// Weights of Hugging Face's checkpoints as ztplan's parameters, and back:
// named, cut and turned, never converted.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "exec/block.h"
#include "exec/huggingface_names.h"
#include "exec/safetensors.h"

namespace ztplan {

/// A parameter of ours: a vector is one row.
struct ParameterShape {
  std::int64_t rows = 1, columns = 0;
  bool operator==(const ParameterShape&) const = default;
};

class HuggingFaceWeights {
 public:
  /// See TensorFiles::open.
  HuggingFaceWeights(TensorFiles files, WeightNames names);

  /// Whether the checkpoint holds a parameter: a head tied to the embedding is
  /// not there.
  bool has(const std::string& ours) const;
  /// Each throws `Error` when the checkpoint has it not, or not in a form to
  /// train. A name may lack the prefix "transformer." or "model.", as those do
  /// that were saved without a head.
  Precision dtype(const std::string& ours) const;
  ParameterShape shape(const std::string& ours) const;
  /// A block of the parameter, row by row, in its dtype. Requires a block
  /// within its shape and room for it.
  void read(const std::string& ours, const Block& block,
            std::span<std::byte> out) const;
  /// Tensors to train that none of these parameters is in: weights of a model
  /// that is not quite ours.
  std::vector<std::string> left_over(
      const std::vector<std::string>& parameters) const;

 private:
  const TensorView* find(const std::string& theirs) const;
  const TensorView& at(const TheirPart& part) const;

  TensorFiles files_;
  WeightNames names_;
};

/// Writes parameters, each whole and with its shape, under Hugging Face's
/// names: one safetensors file, whole or not at all. Throws `Error`. Requires
/// all or none of the parameters that one of theirs is made of, in one dtype.
void write_huggingface(const std::string& path, WeightNames names,
                       const std::map<std::string, TensorView>& parameters);

}  // namespace ztplan
