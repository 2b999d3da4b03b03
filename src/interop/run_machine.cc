#include "interop/run_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/error.h"
#include "base/quote.h"
#include "interop/run_cells.h"

namespace ztplan {
namespace {

struct GpuName {
  std::string_view cell, id;
};
// "A100-80GB" is taken as the SXM part, which the sources' clusters have;
// torchtitan's H100 of 96 GB and 500 W has its own entry.
constexpr std::array kGpus = {
    GpuName{"a100-sxm-80gb", "a100-sxm4-80gb"},
    GpuName{"a100-80gb", "a100-sxm4-80gb"},
    GpuName{"a100-sxm", "a100-sxm4-80gb"},
    GpuName{"a100-pcie", "a100-pcie-80gb"},
    GpuName{"a100-sxm-40gb", "a100-sxm4-40gb"},
    GpuName{"a800-sxm-80gb", "a800-sxm4-80gb"},
    GpuName{"h100-sxm-96gb-hbm2e", "h100-sxm-96gb"},
    GpuName{"h100-sxm", "h100-sxm-80gb"},
    GpuName{"h200-sxm", "h200-sxm-141gb"},
    GpuName{"h800-sxm", "h800-sxm-80gb"},
    GpuName{"gh200-sxm", "gh200-144gb"},
    GpuName{"b200", "b200-sxm-180gb"},
    GpuName{"b200-sxm", "b200-sxm-180gb"},
    GpuName{"gb200-sxm", "gb200"},
    GpuName{"b300", "b300-sxm-270gb"},
    GpuName{"b300-sxm", "b300-sxm-270gb"},
    GpuName{"v100-sxm2", "v100-sxm2-16gb"},
    GpuName{"l40s", "l40s-48gb"},
    GpuName{"rtx-4090", "rtx-4090-24gb"},
    GpuName{"rtx-5060ti", "rtx-5060ti-16gb"},
    GpuName{"rtx-a6000", "rtx-a6000-48gb"},
    GpuName{"rtx-pro-6000-blackwell", "rtx-pro-6000-96gb"},
    GpuName{"rtx-pro-6000-server", "rtx-pro-6000-96gb"},
};

std::string gpu_id(std::string_view cell) {
  const std::string name = folded(cell);
  const auto found = std::ranges::find(kGpus, name, &GpuName::cell);
  return found == kGpus.end() ? name : std::string(found->id);
}

}  // namespace

ClusterSpec machine_of_run(const CsvRow& row, ClusterOverrides overrides,
                           int devices) {
  const std::string cell(row.get("gpu"));
  if (cell.empty() || cell.find("unnamed") != std::string::npos) {
    throw Skip("the GPU is not named");
  }
  overrides.gpu = gpu_id(cell);
  try {
    return load_cluster("", devices, overrides);
  } catch (const Error& error) {
    throw Skip(fmt::format("its machine: {}", first_line(error.what())));
  }
}

}  // namespace ztplan
