#include "exec/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/json_writer.h"
#include "base/quote.h"
#include "exec/whole_file.h"

namespace ztplan {
namespace {

constexpr std::size_t kPrefix = sizeof(std::uint64_t);
constexpr std::uint64_t kLargestHeader = 100'000'000;  // tensor.rs
constexpr std::size_t kAlignment = 8;                  // of the tensors' begin
constexpr char kMetadata[] = "__metadata__";
constexpr char kIndex[] = "model.safetensors.index.json";
constexpr char kSingle[] = "model.safetensors";

struct Dtype {
  std::string_view name;
  std::int64_t bytes;
  std::optional<Precision> precision;
};

constexpr Dtype kDtypes[] = {
    {"F32", 4, Precision::fp32},  {"F16", 2, Precision::fp16},
    {"BF16", 2, Precision::bf16}, {"F64", 8, std::nullopt},
    {"I64", 8, std::nullopt},     {"U64", 8, std::nullopt},
    {"I32", 4, std::nullopt},     {"U32", 4, std::nullopt},
    {"I16", 2, std::nullopt},     {"U16", 2, std::nullopt},
    {"F8_E5M2", 1, std::nullopt}, {"F8_E4M3", 1, std::nullopt},
    {"I8", 1, std::nullopt},      {"U8", 1, std::nullopt},
    {"BOOL", 1, std::nullopt}};

/// A tensor of the header, and where its bytes lie.
struct Entry {
  std::string name;
  TensorView view;
  std::int64_t begin = 0, end = 0;
};

[[noreturn]] void refuse(const std::string& origin, const std::string& why) {
  throw Error(origin + ": " + why,
              "it is no whole safetensors file: fetch or write it again");
}

const Dtype& dtype_of(const JsonView& view) {
  const std::string name = view.string();
  const auto* found = std::ranges::find(kDtypes, name, &Dtype::name);
  if (found == std::end(kDtypes)) view.fail("unknown dtype " + quote(name));
  return *found;
}

std::int64_t natural(const JsonView& view) {
  const std::int64_t number = view.integer();
  if (number < 0) view.fail(fmt::format("{} is below 0", number));
  return number;
}

/// Bytes of a tensor of this shape.
std::int64_t size_of(const JsonView& tensor,
                     const std::vector<std::int64_t>& shape,
                     std::int64_t element) {
  std::int64_t bytes = element;
  for (const std::int64_t length : shape) {
    if (__builtin_mul_overflow(bytes, length, &bytes)) {
      tensor.fail("a shape of more bytes than can be counted");
    }
  }
  return bytes;
}

Entry read_entry(const JsonView& tensor, std::string name) {
  tensor.allow_only({"dtype", "shape", "data_offsets"});
  const Dtype& dtype = dtype_of(tensor.at("dtype"));
  Entry entry{.name = std::move(name),
              .view = {.dtype = dtype.precision, .shape = {}, .bytes = {}}};
  const JsonView shape = tensor.at("shape");
  for (std::size_t i = 0; i < shape.size(); ++i) {
    entry.view.shape.push_back(natural(shape[i]));
  }
  const JsonView offsets = tensor.at("data_offsets");
  if (offsets.size() != 2) offsets.fail("expected begin and end");
  entry.begin = natural(offsets[0]);
  entry.end = natural(offsets[1]);
  const std::int64_t size = size_of(tensor, entry.view.shape, dtype.bytes);
  if (entry.begin > entry.end || entry.end - entry.begin != size) {
    tensor.fail(
        fmt::format("its shape needs {} bytes, its offsets are {} and "
                    "{}",
                    size, entry.begin, entry.end));
  }
  return entry;
}

/// Gives each its bytes. They must follow one another from first to last.
void place(std::vector<Entry>& entries, std::span<const std::byte> data,
           const std::string& origin) {
  std::ranges::sort(entries, {}, [](const Entry& entry) {
    return std::pair(entry.begin, entry.end);
  });
  std::int64_t filled = 0;
  for (Entry& entry : entries) {
    if (entry.begin != filled) {
      refuse(origin, fmt::format("tensor {} begins at byte {}, the one before "
                                 "it ends at {}",
                                 quote(entry.name), entry.begin, filled));
    }
    if (std::cmp_greater(entry.end, data.size())) {
      refuse(origin, fmt::format("tensor {} ends at byte {} of {}",
                                 quote(entry.name), entry.end, data.size()));
    }
    filled = entry.end;
    entry.view.bytes =
        data.subspan(static_cast<std::size_t>(entry.begin),
                     static_cast<std::size_t>(entry.end - entry.begin));
  }
  if (std::cmp_not_equal(filled, data.size())) {
    refuse(origin, fmt::format("{} bytes follow the last tensor",
                               data.size() - static_cast<std::size_t>(filled)));
  }
}

std::string_view header_of(std::span<const std::byte> file,
                           const std::string& origin) {
  std::uint64_t size = 0;
  if (file.size() < kPrefix) refuse(origin, "it is shorter than 8 bytes");
  std::memcpy(&size, file.data(), kPrefix);
  if (size > kLargestHeader || size > file.size() - kPrefix) {
    refuse(origin, fmt::format("a header of {} bytes in a file of {}", size,
                               file.size()));
  }
  const std::string_view header(
      reinterpret_cast<const char*>(file.data() + kPrefix), size);
  if (!header.starts_with('{')) {
    refuse(origin, "its header does not begin with {");
  }
  return header;
}

std::string_view dtype_name(const TensorView& tensor) {
  return std::ranges::find(kDtypes, tensor.dtype, &Dtype::precision)->name;
}

using Named = std::pair<const std::string, TensorView>;

/// The widest elements first, so that all are aligned; by name among equals.
std::vector<const Named*> laid_out(
    const std::map<std::string, TensorView>& tensors) {
  std::vector<const Named*> order;
  order.reserve(tensors.size());
  for (const Named& tensor : tensors) order.push_back(&tensor);
  std::ranges::stable_sort(order, std::greater(), [](const Named* tensor) {
    return bytes_of(*tensor->second.dtype);
  });
  return order;
}

std::string header_text(const std::vector<const Named*>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  JsonWriter json(JsonWriter::Layout::one_line);
  json.begin_object().key(kMetadata).begin_object();
  for (const auto& [key, value] : metadata) json.field(key, value);
  json.end_object();
  std::size_t begin = 0;
  for (const Named* tensor : tensors) {
    json.key(tensor->first).begin_object();
    json.field("dtype", dtype_name(tensor->second)).key("shape").begin_array();
    for (const std::int64_t length : tensor->second.shape) json.value(length);
    const std::size_t end = begin + tensor->second.bytes.size();
    json.end_array().key("data_offsets").begin_array();
    json.value(begin).value(end).end_array().end_object();
    begin = end;
  }
  std::string text = json.end_object().take();
  text.resize(static_cast<std::size_t>(
                  round_up(static_cast<std::int64_t>(text.size()), kAlignment)),
              ' ');
  return text;
}

void require_whole(const TensorView& tensor) {
  require(tensor.dtype.has_value() && *tensor.dtype != Precision::fp8,
          "a tensor to write is of fp32, fp16 or bf16");
  std::int64_t bytes = bytes_of(*tensor.dtype);
  for (const std::int64_t length : tensor.shape) bytes *= length;
  require(std::cmp_equal(tensor.bytes.size(), bytes),
          "a tensor to write has the bytes of its shape");
}

}  // namespace

SafetensorsContent parse_safetensors(std::span<const std::byte> file,
                                     const std::string& origin) {
  const std::string_view header = header_of(file, origin);
  const JsonView json = JsonView::parse(header, origin);
  SafetensorsContent content;
  std::vector<Entry> entries;
  for (std::string& name : json.keys()) {
    const JsonView value = json.at(name);
    if (name != kMetadata) {
      entries.push_back(read_entry(value, std::move(name)));
      continue;
    }
    for (const std::string& key : value.keys()) {
      content.metadata[key] = value.at(key).string();
    }
  }
  place(entries, file.subspan(kPrefix + header.size()), origin);
  for (Entry& entry : entries) {
    content.tensors.emplace(std::move(entry.name), std::move(entry.view));
  }
  return content;
}

TensorFiles TensorFiles::open(const std::string& path) {
  TensorFiles files;
  files.path_ = path;
  const std::filesystem::path place(path);
  if (!std::filesystem::is_directory(place)) {
    path.ends_with(".json") ? files.add_indexed(path) : files.add_all(path);
  } else if (std::filesystem::exists(place / kIndex)) {
    files.add_indexed(place / kIndex);
  } else if (std::filesystem::exists(place / kSingle)) {
    files.add_all(place / kSingle);
  } else {
    throw Error(
        fmt::format("{} holds neither {} nor {}", quote(path), kIndex, kSingle),
        "name a folder of a model that save_pretrained() wrote");
  }
  return files;
}

const TensorView* TensorFiles::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

void TensorFiles::add_all(const std::string& path) {
  files_.push_back(std::make_shared<const MappedFile>(path));
  tensors_.merge(parse_safetensors(files_.back()->bytes(), path).tensors);
}

void TensorFiles::add_indexed(const std::string& index) {
  const JsonView weights = JsonView::load(index).at("weight_map");
  const std::filesystem::path folder =
      std::filesystem::path(index).parent_path();
  std::map<std::string, SafetensorsContent> opened;
  for (const std::string& name : weights.keys()) {
    const JsonView view = weights.at(name);
    const std::string file = view.string();
    if (std::filesystem::path(file).filename() != file) {
      view.fail(quote(file) + " is not the name of a file beside the index");
    }
    const auto [content, is_new] = opened.try_emplace(file);
    if (is_new) {
      files_.push_back(std::make_shared<const MappedFile>(folder / file));
      content->second =
          parse_safetensors(files_.back()->bytes(), files_.back()->path());
    }
    const auto found = content->second.tensors.find(name);
    if (found == content->second.tensors.end()) {
      view.fail(quote(file) + " does not hold it");
    }
    tensors_.insert(*found);
  }
}

void write_safetensors(const std::string& path,
                       const std::map<std::string, TensorView>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  for (const auto& [name, tensor] : tensors) require_whole(tensor);
  const std::vector<const Named*> order = laid_out(tensors);
  const std::string header = header_text(order, metadata);
  const std::uint64_t size = header.size();
  WholeFile file(path);
  file.append(std::as_bytes(std::span(&size, 1)));
  file.append(header);
  for (const Named* tensor : order) file.append(tensor->second.bytes);
  file.finish();
}

}  // namespace ztplan
