// One Hugging Face config.json as a set of keys with several spellings, any of
// which may be absent, null or nested under text_config.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace ztplan {

/// The first spelling of `keys`, to name them in messages.
std::string_view first_spelling(std::string_view keys);

/// Each `keys` is one name or several, "n_layer|num_hidden_layers": the first
/// that is present counts, null only when all are, and text_config before the
/// outer object. What is present must have the right type; `absent` stands for
/// what is not.
class HfKeys {
 public:
  /// Throws `Error` when `file` is no object.
  explicit HfKeys(const JsonView& file);

  /// The text decoder is one part of a larger model.
  bool is_nested() const { return nested_; }
  /// Of text_config when it says so, else of the file; empty when neither does.
  std::string model_type() const;

  bool has(std::string_view keys) const;              // present and not null
  int size(std::string_view keys, int absent) const;  // null is an error
  int size_or_null(std::string_view keys, int absent, int null) const;
  bool flag(std::string_view keys, bool absent) const;        // null: absent
  double number(std::string_view keys, double absent) const;  // null: absent
  std::string word(std::string_view keys, std::string_view absent) const;
  std::vector<int> sizes(std::string_view keys) const;  // absent: none
  std::vector<std::string> words(std::string_view keys) const;

  /// Throws `Error` at the first of `keys` that is present, else at the file.
  [[noreturn]] void fail(std::string_view keys, const std::string& message,
                         const std::string& hint) const;

 private:
  struct Found {
    JsonView value;
    bool is_null;
  };
  static std::optional<Found> find_in(const JsonView& object,
                                      std::string_view keys);
  std::optional<Found> find(std::string_view keys) const;

  JsonView file_, inner_;
  bool nested_ = false;
};

}  // namespace ztplan
