// Ranks as processes do what ranks as threads do, bit for bit.
#include "support/processes.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"

using namespace ztplan;

namespace {

std::string bytes_of(const std::filesystem::path& path) {
  return read_file(path.string(), Bytes{64 * kMiB});
}

/// Names and bytes of all files of a directory.
std::map<std::string, std::string> files_of(const std::string& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(directory))
    if (entry.is_regular_file())
      files[entry.path().lexically_relative(directory).string()] =
          bytes_of(entry.path());
  return files;
}

void check_alike(const Run& processes, const Run& threads) {
  CHECK(processes.exit_code == threads.exit_code);
  REQUIRE(processes.steps.size() == threads.steps.size());
  for (std::size_t i = 0; i < threads.steps.size(); ++i)
    for (const char* key : {"loss", "gradient_norm", "learning_rate"})
      CHECK(processes.steps[i].at(key) == threads.steps[i].at(key));
  for (const char* side : {"memory", "traffic"})
    CHECK(processes.end.at("measured").at(side) ==
          threads.end.at("measured").at(side));
}

}  // namespace

TEST_CASE("processes train with the bits of threads") {
  if (!can_start_processes()) return;
  const std::string experts =
      "--model llama:layers=2,hidden=32,heads=4,kv_heads=2,ffn=24,experts=4,"
      "top_k=2,vocab=256 ";
  struct Row {
    int ranks;
    std::string strategy;
    std::string model = kSmallGpt;
  };
  for (const Row& row : {
           Row{2, "dp=2"},
           Row{2, "dp=2,zero=1"},
           Row{2, "dp=2,zero=2,micro=2"},
           Row{2, "dp=2,zero=3,recompute=full"},
           Row{2, "dp=2,zero=3,offload=nvme+parameters"},
           Row{2, "tp=2,dp=1"},
           Row{2, "cp=2,dp=1"},
           Row{2, "pp=2,dp=1,schedule=gpipe"},
           Row{4, "tp=2,pp=2,dp=1,sp=1"},
           Row{4, "tp=2,dp=2,sp=1,zero=1"},
           Row{4, "pp=2,dp=2,zero=1"},
           Row{2, "ep=2,dp=2", experts},
       }) {
    CAPTURE(row.strategy);
    TemporaryDirectory one, other;
    const std::string words = row.model + "--strategy " + row.strategy +
                              " --data text.txt --global-batch 4 --steps 3 "
                              "--save-weights w.safetensors --checkpoint saved";
    const Run threads = run_threads(one, words);
    const Run processes = run_processes(other, row.ranks, words);
    check_alike(processes, threads);
    CHECK(bytes_of(one.file("w.safetensors")) ==
          bytes_of(other.file("w.safetensors")));
    CHECK(files_of(one.file("saved")) == files_of(other.file("saved")));
  }
}
