#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/nearest.h"
#include "base/quote.h"

namespace ztplan {
namespace {

constexpr std::size_t kDeepest = 64;            // levels; real files use 4
constexpr std::size_t kMostValues = 1'000'000;  // real files hold hundreds
constexpr Bytes kLargestFile{16 * kMiB};        // real files hold kilobytes

struct Value;
struct Member;
using Array = std::vector<Value>;

struct Object {
  std::vector<Member> members;       // as written
  std::vector<std::size_t> by_name;  // indices of members, sorted by name
};

struct Null {};

/// Whole numbers past int64 are kept as doubles: `integer()` refuses them.
struct Value {
  std::variant<Null, bool, std::int64_t, double, std::string, Array, Object> is;
};

struct Member {
  std::string name;
  Value value;
};

std::string describe(const Value& value) {
  struct Describe {
    std::string operator()(Null) const { return "null"; }
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(std::int64_t n) const {
      return fmt::format("{}", n);
    }
    std::string operator()(double n) const { return fmt::format("{}", n); }
    std::string operator()(const std::string& s) const { return quote(s); }
    std::string operator()(const Array&) const { return "an array"; }
    std::string operator()(const Object&) const { return "an object"; }
  };
  return std::visit(Describe{}, value.is);
}

const Value* find(const Object& object, std::string_view name) {
  const auto less = [&](std::size_t i, std::string_view wanted) {
    return object.members[i].name < wanted;
  };
  const auto at = std::lower_bound(object.by_name.begin(), object.by_name.end(),
                                   name, less);
  if (at == object.by_name.end() || object.members[*at].name != name) {
    return nullptr;
  }
  return &object.members[*at].value;
}

std::string path_of_key(const std::string& path, std::string_view key) {
  const bool plain =
      !key.empty() &&
      key.find_first_not_of(
          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
          std::string_view::npos &&
      key.size() < kDeepest;
  if (!plain) return path + "[" + quote(key) + "]";
  return path.empty() ? std::string(key) : path + "." + std::string(key);
}

std::string path_of_index(const std::string& path, std::size_t index) {
  return fmt::format("{}[{}]", path, index);
}

[[noreturn]] void fail_at(const std::string& origin, const std::string& path,
                          const std::string& message, std::string hint) {
  const std::string where = path.empty() ? "" : path + ": ";
  throw Error(origin + ": " + where + message, std::move(hint));
}

/// Grows a `Value` from the parser's events. Only the innermost open container
/// grows, so pointers to the outer ones stay good.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Builder(std::string_view text, const std::string& origin)
      : text_(text), origin_(origin) {}
  Value take() { return std::move(root_); }

  bool null() override { return put(Null{}); }
  bool boolean(bool b) override { return put(b); }
  bool number_integer(std::int64_t n) override { return put(n); }
  bool number_unsigned(std::uint64_t n) override {
    if (std::in_range<std::int64_t>(n))
      return put(static_cast<std::int64_t>(n));
    return put(static_cast<double>(n));
  }
  bool number_float(double n, const std::string&) override { return put(n); }
  bool string(std::string& s) override { return put(std::move(s)); }
  bool binary(nlohmann::json::binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Object{}); }
  bool start_array(std::size_t) override { return open(Array{}); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    std::get<Object>(open_.back()->is).members.push_back({std::move(name), {}});
    return true;
  }

  bool end_object() override {
    Object& object = std::get<Object>(open_.back()->is);
    const auto name = [&](std::size_t i) -> const std::string& {
      return object.members[i].name;
    };
    object.by_name.resize(object.members.size());
    std::iota(object.by_name.begin(), object.by_name.end(), std::size_t{0});
    std::ranges::sort(object.by_name, {}, name);
    const auto twice = std::ranges::adjacent_find(object.by_name, {}, name);
    if (twice != object.by_name.end()) {
      fail_at(origin_, path(), "duplicate key " + quote(name(*twice)),
              "keep one of them");
    }
    return close();
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    const std::size_t end = std::min(position, text_.size());
    const auto line = 1 + std::ranges::count(text_.substr(0, end), '\n');
    const bool overflow = error.id == kOutOfRange;
    fail_at(origin_, "",
            fmt::format("line {}: {}", line,
                        overflow ? "a number too large" : why(error.what())),
            overflow ? "" : "the file must hold one JSON value");
  }

 private:
  static constexpr int kOutOfRange = 406;  // nlohmann: number overflow

  /// nlohmann's sentence without its bracketed code, its position and its
  /// first words: "object key - invalid string: missing closing quote".
  static std::string why(std::string_view what) {
    const std::size_t start = what.find(": ");
    std::string_view reason =
        start == std::string_view::npos ? what : what.substr(start + 2);
    const std::size_t read = reason.find("; last read: ");
    if (read != std::string_view::npos) reason = reason.substr(0, read);
    constexpr std::string_view kStart = "syntax error while parsing ";
    if (reason.starts_with(kStart)) reason.remove_prefix(kStart.size());
    return "not JSON: " + printable(reason);
  }

  std::string path() const {
    std::string path;
    for (std::size_t i = 0; i + 1 < open_.size(); ++i) {
      const auto* object = std::get_if<Object>(&open_[i]->is);
      path =
          object != nullptr
              ? path_of_key(path, object->members.back().name)
              : path_of_index(path, std::get<Array>(open_[i]->is).size() - 1);
    }
    return path;
  }

  Value* place(Value value) {
    if (++values_ > kMostValues) {
      fail_at(origin_, "", fmt::format("more than {} values", kMostValues),
              "this is not a file ztplan can use");
    }
    if (open_.empty()) return &(root_ = std::move(value));
    if (auto* array = std::get_if<Array>(&open_.back()->is)) {
      return &array->emplace_back(std::move(value));
    }
    Member& member = std::get<Object>(open_.back()->is).members.back();
    return &(member.value = std::move(value));
  }

  template <class T>
  bool put(T scalar) {
    place(Value{std::move(scalar)});
    return true;
  }

  template <class T>
  bool open(T container) {
    if (open_.size() == kDeepest) {
      fail_at(origin_, "",
              fmt::format("nested deeper than {} levels", kDeepest),
              "this is not a file ztplan can use");
    }
    open_.push_back(place(Value{std::move(container)}));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  const std::string& origin_;
  Value root_;
  std::vector<Value*> open_;
  std::size_t values_ = 0;
};

const Value& as_value(const void* value) {
  return *static_cast<const Value*>(value);
}

template <class T>
const T* get(const void* value) {
  return std::get_if<T>(&as_value(value).is);
}

std::string join_quoted(std::initializer_list<std::string_view> names) {
  std::string out;
  for (const std::string_view name : names) {
    out += (out.empty() ? "" : ", ") + std::string(name);
  }
  return out;
}

}  // namespace

struct JsonView::Document {
  std::string origin;
  Value root;
};

JsonView JsonView::parse(std::string_view text, std::string origin) {
  // The parser would take a zero byte for the end of the text.
  if (text.find('\0') != std::string_view::npos) {
    fail_at(origin, "", "not JSON: it holds a zero byte",
            "the file must hold one JSON value");
  }
  Builder builder(text, origin);
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  JsonView view;
  const auto document = std::make_shared<const Document>(
      Document{std::move(origin), builder.take()});
  view.value_ = &document->root;
  view.document_ = document;
  return view;
}

JsonView JsonView::load(const std::string& path) {
  return parse(read_file(path, kLargestFile), path);
}

bool JsonView::has(std::string_view key) const {
  const auto* object = get<Object>(value_);
  const Value* value = object == nullptr ? nullptr : find(*object, key);
  return value != nullptr && !std::holds_alternative<Null>(value->is);
}

JsonView JsonView::at(std::string_view key) const {
  const auto* object = get<Object>(value_);
  if (object == nullptr) {
    fail("expected an object, found " + describe(as_value(value_)));
  }
  const Value* value = find(*object, key);
  if (value == nullptr) fail("key " + quote(key) + " is missing");
  JsonView view(*this);
  view.value_ = value;
  view.path_ = path_of_key(path_, key);
  return view;
}

std::vector<std::string> JsonView::keys() const {
  const auto* object = get<Object>(value_);
  if (object == nullptr) {
    fail("expected an object, found " + describe(as_value(value_)));
  }
  std::vector<std::string> names;
  names.reserve(object->members.size());
  for (const Member& member : object->members) names.push_back(member.name);
  return names;
}

std::size_t JsonView::size() const {
  if (const auto* array = get<Array>(value_)) return array->size();
  if (const auto* object = get<Object>(value_)) return object->members.size();
  fail("expected an array, found " + describe(as_value(value_)));
}

JsonView JsonView::operator[](std::size_t index) const {
  const auto* array = get<Array>(value_);
  if (array == nullptr) {
    fail("expected an array, found " + describe(as_value(value_)));
  }
  if (index >= array->size()) {
    fail(fmt::format("expected more than {} elements, found {}", index,
                     array->size()));
  }
  JsonView view(*this);
  view.value_ = &(*array)[index];
  view.path_ = path_of_index(path_, index);
  return view;
}

bool JsonView::is_object() const { return get<Object>(value_) != nullptr; }
bool JsonView::is_array() const { return get<Array>(value_) != nullptr; }
bool JsonView::is_number() const {
  return get<std::int64_t>(value_) != nullptr || get<double>(value_) != nullptr;
}

std::string JsonView::string() const {
  if (const auto* text = get<std::string>(value_)) return *text;
  fail("expected a string, found " + describe(as_value(value_)));
}

std::int64_t JsonView::integer() const {
  if (const auto* whole = get<std::int64_t>(value_)) return *whole;
  fail("expected a whole number, found " + describe(as_value(value_)),
       is_number() ? "write it in digits, without fraction or exponent" : "");
}

int JsonView::small_integer(int low, int high) const {
  const auto* whole = get<std::int64_t>(value_);
  if (whole != nullptr && *whole >= low && *whole <= high) {
    return static_cast<int>(*whole);
  }
  fail(fmt::format("expected a whole number from {} to {}, found {}", low, high,
                   describe(as_value(value_))));
}

double JsonView::number() const {
  if (const auto* whole = get<std::int64_t>(value_)) {
    return static_cast<double>(*whole);
  }
  if (const auto* real = get<double>(value_)) return *real;
  fail("expected a number, found " + describe(as_value(value_)));
}

bool JsonView::boolean() const {
  if (const auto* truth = get<bool>(value_)) return *truth;
  fail("expected true or false, found " + describe(as_value(value_)));
}

std::string JsonView::string_or(std::string_view key,
                                std::string fallback) const {
  return has(key) ? at(key).string() : std::move(fallback);
}

std::int64_t JsonView::integer_or(std::string_view key,
                                  std::int64_t fallback) const {
  return has(key) ? at(key).integer() : fallback;
}

bool JsonView::boolean_or(std::string_view key, bool fallback) const {
  return has(key) ? at(key).boolean() : fallback;
}

void JsonView::allow_only(std::initializer_list<std::string_view> keys) const {
  for (const std::string& key : this->keys()) {
    if (std::ranges::find(keys, key) != keys.end()) continue;
    const std::vector<std::string> known(keys.begin(), keys.end());
    const std::string near = nearest_name(key, known);
    fail("unknown key " + quote(key),
         near.empty() ? "known keys: " + join_quoted(keys)
                      : "did you mean " + quote(near) + "?");
  }
}

void JsonView::fail(const std::string& message, std::string hint) const {
  fail_at(document_->origin, path_, message, std::move(hint));
}

}  // namespace ztplan
