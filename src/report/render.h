// A table in the format asked.
#pragma once

#include <string>

#include "base/table.h"
#include "report/style.h"

namespace ztplan {

/// Requires a format other than JSON, which is no table.
std::string render(const Table& table, Format format);

}  // namespace ztplan
