#include "exec/huggingface_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/quote.h"

namespace ztplan {
namespace {

/// Where the elements of a parameter of ours are in a tensor of theirs.
struct Places {
  std::int64_t first = 0;            // element (0, 0)
  std::int64_t row = 0, column = 0;  // elements from one to the next
  ParameterShape shape;
};

/// Requires a tensor of one or two dimensions that splits into the pieces.
Places places_of(const TheirPart& part,
                 const std::vector<std::int64_t>& shape) {
  const std::int64_t pieces = part.pieces;
  if (shape.size() == 1) {
    const std::int64_t size = shape[0] / pieces;
    return {part.piece * size, size, 1, {1, size}};
  }
  if (part.transposed) {
    const std::int64_t outputs = shape[1] / pieces;
    return {part.piece * outputs, 1, shape[1], {outputs, shape[0]}};
  }
  const std::int64_t outputs = shape[0] / pieces;
  return {part.piece * outputs * shape[1], shape[1], 1, {outputs, shape[1]}};
}

bool splits(const TheirPart& part, const std::vector<std::int64_t>& shape) {
  if (shape.empty() || shape.size() > 2) return false;
  const bool last = part.transposed || shape.size() == 1;
  return (last ? shape.back() : shape.front()) % part.pieces == 0;
}

/// Calls copy(element of theirs, element of ours) for each of the block.
template <class Copy>
void for_each_element(const Places& places, const Block& block, Copy copy) {
  std::int64_t ours = 0;
  for (std::int64_t row = block.row; row < block.row + block.rows; ++row) {
    const std::int64_t begin = places.first + row * places.row;
    for (std::int64_t i = 0; i < block.columns; ++i, ++ours) {
      copy(begin + (block.column + i) * places.column, ours);
    }
  }
}

std::string without_prefix(const std::string& name) {
  for (const std::string_view prefix : {"transformer.", "model."}) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return name;
}

/// The shape of theirs of which ours, a vector or a matrix, is a piece.
std::vector<std::int64_t> their_shape(const TheirPart& part,
                                      std::vector<std::int64_t> ours) {
  require(ours.size() == 1 || ours.size() == 2,
          "a parameter is a vector or a matrix");
  ours.front() *= part.pieces;
  if (part.transposed) std::ranges::reverse(ours);
  return ours;
}

/// A tensor of theirs as it is put together.
struct Building {
  Precision dtype = Precision::fp32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
  int missing = 0;  // pieces
};

Building begin_building(const TheirPart& part, const TensorView& ours) {
  require(ours.dtype.has_value(), "a parameter has a dtype");
  return {.dtype = *ours.dtype,
          .shape = their_shape(part, ours.shape),
          .bytes = std::vector<std::byte>(
              ours.bytes.size() * static_cast<std::size_t>(part.pieces)),
          .missing = part.pieces};
}

void add_piece(Building& building, const TheirPart& part,
               const TensorView& ours) {
  require(ours.dtype == building.dtype &&
              their_shape(part, ours.shape) == building.shape,
          "pieces of a tensor are alike");
  const Places places = places_of(part, building.shape);
  const std::int64_t width = bytes_of(building.dtype);
  for_each_element(places, {0, places.shape.rows, 0, places.shape.columns},
                   [&](std::int64_t theirs, std::int64_t own) {
                     std::memcpy(building.bytes.data() + theirs * width,
                                 ours.bytes.data() + own * width,
                                 static_cast<std::size_t>(width));
                   });
  --building.missing;
}

}  // namespace

HuggingFaceWeights::HuggingFaceWeights(TensorFiles files, WeightNames names)
    : files_(std::move(files)), names_(names) {}

const TensorView* HuggingFaceWeights::find(const std::string& theirs) const {
  const TensorView* tensor = files_.find(theirs);
  return tensor != nullptr ? tensor : files_.find(without_prefix(theirs));
}

const TensorView& HuggingFaceWeights::at(const TheirPart& part) const {
  const TensorView* tensor = find(part.name);
  if (tensor == nullptr) {
    throw Error(fmt::format("{} holds no tensor {}", quote(files_.path()),
                            quote(part.name)),
                "name the weights of this model");
  }
  if (!tensor->dtype || !splits(part, tensor->shape)) {
    throw Error(fmt::format("{}: tensor {} is not of F32, F16 or BF16, or not "
                            "of a shape to train",
                            quote(files_.path()), quote(part.name)),
                "save the model in one of these, not quantized");
  }
  return *tensor;
}

bool HuggingFaceWeights::has(const std::string& ours) const {
  return find(their_part(names_, ours).name) != nullptr;
}

Precision HuggingFaceWeights::dtype(const std::string& ours) const {
  return *at(their_part(names_, ours)).dtype;
}

ParameterShape HuggingFaceWeights::shape(const std::string& ours) const {
  const TheirPart part = their_part(names_, ours);
  return places_of(part, at(part).shape).shape;
}

void HuggingFaceWeights::read(const std::string& ours, const Block& block,
                              std::span<std::byte> out) const {
  const TheirPart part = their_part(names_, ours);
  const TensorView& tensor = at(part);
  const Places places = places_of(part, tensor.shape);
  const std::int64_t width = bytes_of(*tensor.dtype);
  require(block.row >= 0 && block.row + block.rows <= places.shape.rows &&
              block.column >= 0 &&
              block.column + block.columns <= places.shape.columns &&
              std::ssize(out) == block.size() * width,
          "a block of a parameter is read into its room");
  for_each_element(places, block, [&](std::int64_t theirs, std::int64_t own) {
    std::memcpy(out.data() + own * width, tensor.bytes.data() + theirs * width,
                static_cast<std::size_t>(width));
  });
}

std::vector<std::string> HuggingFaceWeights::left_over(
    const std::vector<std::string>& parameters) const {
  std::set<std::string> known;
  for (const std::string& ours : parameters) {
    const std::string theirs = their_part(names_, ours).name;
    known.insert({theirs, without_prefix(theirs)});
  }
  std::vector<std::string> left;
  for (const auto& [name, tensor] : files_.tensors()) {
    if (tensor.dtype && !known.contains(name)) left.push_back(name);
  }
  return left;
}

void write_huggingface(const std::string& path, WeightNames names,
                       const std::map<std::string, TensorView>& parameters) {
  std::map<std::string, Building> buildings;
  for (const auto& [ours, tensor] : parameters) {
    const TheirPart part = their_part(names, ours);
    const auto found =
        buildings.try_emplace(part.name, begin_building(part, tensor)).first;
    add_piece(found->second, part, tensor);
  }
  std::map<std::string, TensorView> views;
  for (const auto& [name, building] : buildings) {
    require(building.missing == 0, "all pieces of a tensor are there");
    views[name] = {building.dtype, building.shape, building.bytes};
  }
  write_safetensors(path, views, {{"format", "pt"}});
}

}  // namespace ztplan
