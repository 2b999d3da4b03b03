#include "calibrate/kernels/run_on_cpu.h"

namespace ztplan {

void run_on_cpu(const Kernel& kernel) {
  std::visit([](const auto& one) { kernels::run(one); }, kernel);
}

}  // namespace ztplan
