#include "report/render.h"

#include "base/error.h"

namespace ztplan {

std::string render(const Table& table, Format format) {
  require(format != Format::json, "JSON is no table");
  if (format == Format::md) return render_markdown(table);
  if (format == Format::csv) return render_csv(table);
  return render_text(table);
}

}  // namespace ztplan
