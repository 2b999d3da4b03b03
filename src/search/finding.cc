#include "search/finding.h"

namespace ztplan {

std::string_view to_text(Severity severity) {
  switch (severity) {
    case Severity::refused:
      return "refused";
    case Severity::trap:
      return "trap";
    case Severity::advice:
      return "advice";
  }
  return "?";
}

}  // namespace ztplan
