// A hardware/ of few files for fuzzing: an unknown name is looked up in all.
#pragma once

#include <stdlib.h>

#include <filesystem>

#include "spec/catalog.h"

namespace ztplan {

/// Copies what a DGX H100 needs to a folder and makes it the data directory.
inline void use_few_machines() {
  const std::filesystem::path data =
      std::filesystem::temp_directory_path() / "ztplan-fuzz-data";
  const std::filesystem::path whole = data_directory();
  std::filesystem::create_directories(data / "models");
  for (const char* file :
       {"devices/h100-sxm-80gb.json", "nodes/dgx-h100.json",
        "networks/nvlink4.json", "networks/ib-ndr.json",
        "networks/pcie5-x16.json", "networks/nvme-gen4.json"}) {
    const std::filesystem::path to = data / "hardware" / file;
    std::filesystem::create_directories(to.parent_path());
    std::filesystem::copy_file(
        whole / "hardware" / file, to,
        std::filesystem::copy_options::overwrite_existing);
  }
  ::setenv("ZTPLAN_DATA", data.c_str(), 1);
}

}  // namespace ztplan
