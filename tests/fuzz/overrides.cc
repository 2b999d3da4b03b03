// Any words after --network, --nvme and their like change a machine or end in
// `Error`. One line of input is one option.
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "fuzz/ask.h"
#include "spec/catalog.h"

namespace {

using namespace ztplan;

/// A hardware/ of few files: an unknown name is looked up in all of them.
void furnish(const std::filesystem::path& data) {
  const std::filesystem::path whole = data_directory();
  for (const char* file :
       {"devices/h100-sxm-80gb.json", "nodes/dgx-h100.json",
        "networks/nvlink4.json", "networks/ib-ndr.json",
        "networks/pcie5-x16.json", "networks/nvme-gen4.json"}) {
    const std::filesystem::path to = data / "hardware" / file;
    std::filesystem::create_directories(to.parent_path());
    std::filesystem::create_directories(data / "models");
    std::filesystem::copy_file(
        whole / "hardware" / file, to,
        std::filesystem::copy_options::overwrite_existing);
  }
}

std::string take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string line(text.substr(0, end));
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

ClusterOverrides read_overrides(std::string_view text) {
  ClusterOverrides overrides;
  for (std::string* word :
       {&overrides.network, &overrides.intra, &overrides.p2p, &overrides.nvme,
        &overrides.host_memory, &overrides.device_memory}) {
    *word = take_line(text);
  }
  if (!text.empty()) overrides.gpus_per_node = text[0];
  return overrides;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const std::filesystem::path data =
      std::filesystem::temp_directory_path() / "ztplan-fuzz-data";
  furnish(data);
  return ::setenv("ZTPLAN_DATA", data.c_str(), 1);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  constexpr int kGpus = 1024;
  const ClusterOverrides overrides = read_overrides(as_text(data, size));
  ask([&] { validate(load_cluster("dgx-h100", kGpus, overrides)); });
  ask([&] { validate(load_cluster("dgx-h100", 0, overrides)); });
  return 0;
}
