// When each task of a step ran. The simulator predicts it, an executor measures
// it; reports and traces cannot tell which.
#pragma once

#include <vector>

#include "base/units.h"

namespace ztplan {

struct Span {
  Seconds start, end;
};

struct Timeline {
  std::vector<Span> spans;  // indexed as StepGraph::tasks()
  Seconds end() const {
    Seconds last;
    for (const Span& span : spans) last = last < span.end ? span.end : last;
    return last;
  }
};

}  // namespace ztplan
