#include "exec/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <span>

#include "base/error.h"
#include "base/json.h"
#include "base/json_writer.h"
#include "base/quote.h"
#include "exec/crc32c.h"

namespace ztplan {
namespace {

constexpr std::int64_t kVersion = 1;
constexpr char kDamaged[] = "resume from an older checkpoint";
constexpr Precision kDtypes[] = {Precision::fp32, Precision::fp16,
                                 Precision::bf16};
constexpr std::string_view kDtypeNames[] = {"fp32", "fp16", "bf16"};

std::uint32_t checksum(std::string_view text) {
  return crc32c(std::as_bytes(std::span(text)));
}

std::string before_body(std::string_view body) {
  return fmt::format("{{\"crc32c\": \"{:08x}\", \"manifest\":\n",
                     checksum(body));
}
constexpr std::string_view kAfterBody = "}\n";

std::string to_text(const Piece& piece) {
  const Block& block = piece.part.block;
  return fmt::format("{} {} {:08x} {} {} {} {} {} {}", piece.file, piece.offset,
                     piece.crc32c, block.row, block.rows, block.column,
                     block.columns, piece.part.from, piece.part.until);
}

template <class Number>
bool take_number(std::string_view& text, Number& number, int base) {
  const char* end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, number, base);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(next - text.data()));
  if (text.starts_with(' ')) text.remove_prefix(1);
  return true;
}

constexpr int kDecimal = 10, kHexadecimal = 16;

Piece read_piece(const JsonView& view) {
  const std::string written = view.string();
  std::string_view text = written;
  Piece piece;
  Block& block = piece.part.block;
  const auto take = [&text](std::int64_t& number) {
    return take_number(text, number, kDecimal) && number >= 0;
  };
  const bool read = take(piece.file) && take(piece.offset) &&
                    take_number(text, piece.crc32c, kHexadecimal) &&
                    take(block.row) && take(block.rows) && take(block.column) &&
                    take(block.columns) && take(piece.part.from) &&
                    take(piece.part.until);
  if (!read || !text.empty()) {
    view.fail("not nine numbers of a piece: " + quote(written));
  }
  return piece;
}

/// `from` + `size` <= `whole`, of numbers that are not negative.
bool lies_within(std::int64_t from, std::int64_t size, std::int64_t whole) {
  return size <= whole && from <= whole - size;
}

bool can_count(std::int64_t rows, std::int64_t columns, std::int64_t width) {
  std::int64_t bytes = 0;
  return !__builtin_mul_overflow(rows, columns, &bytes) &&
         !__builtin_mul_overflow(bytes, width, &bytes);
}

void check_piece(const Piece& piece, const SavedTensor& tensor,
                 const Manifest& manifest, const JsonView& view) {
  const auto [block, from, until] = piece.part;
  const std::int64_t width = bytes_of(tensor.dtype);
  const bool fits =
      piece.file < std::ssize(manifest.files) &&
      lies_within(block.row, block.rows, tensor.rows) &&
      lies_within(block.column, block.columns, tensor.columns) &&
      from <= until && until <= block.size() &&
      lies_within(piece.offset, (until - from) * width,
                  manifest.files[static_cast<std::size_t>(piece.file)].bytes);
  if (!fits) view.fail("a piece that lies without its file or its tensor");
}

std::int64_t natural(const JsonView& view) {
  const std::int64_t number = view.integer();
  if (number < 0) view.fail(fmt::format("{} is below 0", number));
  return number;
}

SavedTensor read_tensor(const JsonView& view, const Manifest& manifest) {
  const JsonView dtype = view.at("dtype");
  const auto* name = std::ranges::find(kDtypeNames, dtype.string());
  if (name == std::end(kDtypeNames)) dtype.fail("expected fp32, fp16 or bf16");
  SavedTensor tensor{.dtype = kDtypes[name - std::begin(kDtypeNames)],
                     .rows = natural(view.at("rows")),
                     .columns = natural(view.at("columns")),
                     .pieces = {}};
  if (!can_count(tensor.rows, tensor.columns, bytes_of(tensor.dtype))) {
    view.fail("more bytes than can be counted");
  }
  const JsonView pieces = view.at("pieces");
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    tensor.pieces.push_back(read_piece(pieces[i]));
    check_piece(tensor.pieces.back(), tensor, manifest, pieces[i]);
  }
  return tensor;
}

void write_state(JsonWriter& json, const RunState& state) {
  json.field("step", state.step);
  json.field("seed", static_cast<std::int64_t>(state.seed));
  json.field("samples", state.samples);
  json.field("loss_scale", state.loss_scale);
  json.field("strategy", state.strategy);
  json.field("model", state.model);
}

RunState read_state(const JsonView& view) {
  return {.step = natural(view.at("step")),
          .seed = static_cast<std::uint64_t>(view.at("seed").integer()),
          .samples = natural(view.at("samples")),
          .loss_scale = view.at("loss_scale").number(),
          .strategy = view.at("strategy").string(),
          .model = view.at("model").string()};
}

void write_tensor(JsonWriter& json, const SavedTensor& tensor) {
  const auto* dtype = std::ranges::find(kDtypes, tensor.dtype);
  require(dtype != std::end(kDtypes), "states are fp32, fp16 or bf16");
  json.begin_object();
  json.field("dtype", kDtypeNames[dtype - std::begin(kDtypes)]);
  json.field("rows", tensor.rows).field("columns", tensor.columns);
  json.key("pieces").begin_array();
  for (const Piece& piece : tensor.pieces) json.value(to_text(piece));
  json.end_array().end_object();
}

std::string body_of(const Manifest& manifest) {
  JsonWriter json(JsonWriter::Layout::indented);
  json.begin_object().field("version", kVersion);
  write_state(json, manifest.state);
  json.key("files").begin_array();
  for (const SavedFile& file : manifest.files) {
    json.begin_object().field("name", file.name).field("bytes", file.bytes);
    json.end_object();
  }
  json.end_array().key("tensors").begin_object();
  for (const auto& [name, tensor] : manifest.tensors) {
    write_tensor(json.key(name), tensor);
  }
  json.end_object().end_object();
  return json.take();
}

/// The part of the text that the checksum is of.
std::string_view body_in(std::string_view text, const std::string& origin) {
  const std::size_t before = before_body("").size();
  const std::size_t around = before + kAfterBody.size();
  const std::string_view body =
      text.size() < around ? "" : text.substr(before, text.size() - around);
  if (text != before_body(body) + std::string(body) + std::string(kAfterBody)) {
    throw Error(origin + ": it is not as it was written", kDamaged);
  }
  return body;
}

}  // namespace

TensorPart all_of(const Block& block) { return {block, 0, block.size()}; }

std::string to_text(const Manifest& manifest) {
  const std::string body = body_of(manifest);
  return before_body(body) + body + std::string(kAfterBody);
}

Manifest parse_manifest(std::string_view text, const std::string& origin) {
  const JsonView view = JsonView::parse(body_in(text, origin), origin);
  if (view.at("version").integer() != kVersion) {
    view.at("version").fail(fmt::format("expected version {}", kVersion),
                            "read it with the ztplan that wrote it");
  }
  Manifest manifest{.state = read_state(view), .files = {}, .tensors = {}};
  const JsonView files = view.at("files");
  for (std::size_t i = 0; i < files.size(); ++i) {
    manifest.files.push_back(
        {files[i].at("name").string(), natural(files[i].at("bytes"))});
  }
  const JsonView tensors = view.at("tensors");
  for (const std::string& name : tensors.keys()) {
    manifest.tensors[name] = read_tensor(tensors.at(name), manifest);
  }
  return manifest;
}

}  // namespace ztplan
