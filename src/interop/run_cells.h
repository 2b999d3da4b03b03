// The cells of one measured run, read with care: a row that cannot be used is
// skipped with a reason that others share, never a crash.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/csv.h"

namespace ztplan {

/// Thrown while a row is read: why it cannot be predicted.
class Skip : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws `Skip` for a row that has not as many cells as its table's header.
void check_cells(const CsvRow& row);

/// `text` in lower case, without blanks at its ends.
std::string folded(std::string_view text);

/// A cell as a whole number from 0 to `most`; empty for an empty cell. Throws
/// `Skip` for anything else.
std::optional<int> whole_cell(const CsvRow& row, std::string_view column,
                              int most);
/// A cell as a positive, finite number; empty for an empty cell.
std::optional<double> number_cell(const CsvRow& row, std::string_view column);

/// Whether `text` holds `words`, as they are written.
bool says(std::string_view text, std::string_view words);

/// Whether the row's notes hold `words`, in any case.
bool notes_say(const CsvRow& row, std::string_view words);

/// Whether the row is of one of Megatron Bridge's own tables.
bool is_of_megatron_bridge(const CsvRow& row);

/// The whole number that follows `words` in the notes: "top-8" after "top-".
std::optional<int> noted_number(const CsvRow& row, std::string_view words);

}  // namespace ztplan
