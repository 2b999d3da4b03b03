#include "spec/hf_keys.h"

#include <algorithm>

namespace ztplan {
namespace {

constexpr std::string_view kNested = "text_config";

bool holds_null(const JsonView& object, std::string_view key) {
  if (object.has(key)) return false;
  const std::vector<std::string> names = object.keys();
  return std::ranges::find(names, key) != names.end();
}

// Above every bound of validate, and small enough to be quadrupled.
constexpr int kLargest = 100'000'000;

int read_size(const JsonView& value) {
  return value.small_integer(0, kLargest);
}

}  // namespace

std::string_view first_spelling(std::string_view keys) {
  return keys.substr(0, keys.find('|'));
}

HfKeys::HfKeys(const JsonView& file) : file_(file), inner_(file) {
  if (!file.is_object()) file.fail("expected an object");
  if (!file.has(kNested)) return;
  inner_ = file.at(kNested);
  if (!inner_.is_object()) inner_.fail("expected an object");
  nested_ = true;
}

std::optional<HfKeys::Found> HfKeys::find_in(const JsonView& object,
                                             std::string_view keys) {
  std::optional<Found> null;
  while (!keys.empty()) {
    const std::size_t bar = keys.find('|');
    const std::string_view key = keys.substr(0, bar);
    if (object.has(key)) return Found{object.at(key), false};
    if (holds_null(object, key)) null = Found{object.at(key), true};
    keys = bar == std::string_view::npos ? "" : keys.substr(bar + 1);
  }
  return null;
}

std::optional<HfKeys::Found> HfKeys::find(std::string_view keys) const {
  auto found = find_in(inner_, keys);
  return found || !nested_ ? found : find_in(file_, keys);
}

std::string HfKeys::model_type() const {
  const std::string outer = file_.string_or("model_type", "");
  return nested_ ? inner_.string_or("model_type", outer) : outer;
}

bool HfKeys::has(std::string_view keys) const {
  const auto found = find(keys);
  return found && !found->is_null;
}

int HfKeys::size(std::string_view keys, int absent) const {
  const auto found = find(keys);
  return found ? read_size(found->value) : absent;
}

int HfKeys::size_or_null(std::string_view keys, int absent, int null) const {
  const auto found = find(keys);
  if (!found) return absent;
  return found->is_null ? null : read_size(found->value);
}

bool HfKeys::flag(std::string_view keys, bool absent) const {
  const auto found = find(keys);
  return found && !found->is_null ? found->value.boolean() : absent;
}

double HfKeys::number(std::string_view keys, double absent) const {
  const auto found = find(keys);
  return found && !found->is_null ? found->value.number() : absent;
}

std::string HfKeys::word(std::string_view keys, std::string_view absent) const {
  const auto found = find(keys);
  return found && !found->is_null ? found->value.string() : std::string(absent);
}

std::vector<int> HfKeys::sizes(std::string_view keys) const {
  std::vector<int> sizes;
  const auto found = find(keys);
  if (!found || found->is_null) return sizes;
  for (std::size_t i = 0; i < found->value.size(); ++i)
    sizes.push_back(read_size(found->value[i]));
  return sizes;
}

std::vector<std::string> HfKeys::words(std::string_view keys) const {
  std::vector<std::string> words;
  const auto found = find(keys);
  if (!found || found->is_null) return words;
  for (std::size_t i = 0; i < found->value.size(); ++i)
    words.push_back(found->value[i].string());
  return words;
}

void HfKeys::fail(std::string_view keys, const std::string& message,
                  const std::string& hint) const {
  const auto found = find(keys);
  (found ? found->value : inner_).fail(message, hint);
}

}  // namespace ztplan
