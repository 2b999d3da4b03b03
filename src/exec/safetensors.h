// Weights in Hugging Face's safetensors: 8 bytes that count those of a JSON
// header, the header, the tensors. Whose tensor is whose is
// huggingface_names.h's. Source: github.com/huggingface/safetensors, README.md
// and safetensors/src/tensor.rs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/mapped_file.h"
#include "strategy/strategy.h"

namespace ztplan {

/// A tensor that lies in a file or elsewhere, row by row, little endian.
struct TensorView {
  std::optional<Precision> dtype;  // none: a mask, or what else is not trained
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

struct SafetensorsContent {
  std::map<std::string, TensorView> tensors;  // views of the file
  std::map<std::string, std::string> metadata;
};

/// Reads the header of a whole file; `origin` names it in messages. Throws
/// `Error` unless the tensors fill the file without gap or overlap, each as
/// long as its shape and dtype say, and every name is there once. Not more
/// than 100 MB of header, as the reference has it.
SafetensorsContent parse_safetensors(std::span<const std::byte> file,
                                     const std::string& origin);

/// The tensors of one file, or of the many that an index names.
class TensorFiles {
 public:
  /// "x.safetensors", "model.safetensors.index.json", or a folder that holds
  /// the latter or "model.safetensors". Throws `Error`, also for a tensor that
  /// is not in the file the index names.
  static TensorFiles open(const std::string& path);

  const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  /// Nothing when there is no such tensor.
  const TensorView* find(const std::string& name) const;
  const std::string& path() const { return path_; }

 private:
  void add_all(const std::string& path);
  void add_indexed(const std::string& index);

  std::string path_;
  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::map<std::string, TensorView> tensors_;
};

/// Writes a file, whole or not at all. transformers asks for the metadata
/// "format": "pt". Throws `Error`. Requires a dtype of fp32, fp16 or bf16, and
/// bytes as many as shape and dtype say.
void write_safetensors(const std::string& path,
                       const std::map<std::string, TensorView>& tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace ztplan
