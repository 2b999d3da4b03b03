// Any words after --network, --nvme and their like change a machine or end in
// `Error`. One line of input is one option.
#include <algorithm>
#include <string>

#include "fuzz/ask.h"
#include "fuzz/few_machines.h"
#include "spec/catalog.h"

namespace {

using namespace ztplan;

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
  ztplan::use_few_machines();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  constexpr int kGpus = 1024;
  const ClusterOverrides overrides = read_overrides(as_text(data, size));
  ask([&] { validate(load_cluster("dgx-h100", kGpus, overrides)); });
  ask([&] { validate(load_cluster("dgx-h100", 0, overrides)); });
  return 0;
}
