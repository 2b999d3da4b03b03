// Launch scripts, as emitted and as users write them, say their arguments.
#include "interop/shell_script.h"

#include <doctest/doctest.h>

#include <string>

#include "interop/format.h"
#include "support/answers.h"
#include "support/temporary_directory.h"

using namespace ztplan;
using nlohmann::json;

namespace {

/// The strategy and the number of GPUs that `check` reads in `file`.
std::string checked(const std::string& file, const std::string& flags) {
  const CommandResult result = run_line("check " + file + flags + " --json");
  CAPTURE(result.errors);
  REQUIRE(result.exit_code == 0);
  const json data = json::parse(result.output);
  CHECK(data.at("findings").empty());
  return data.at("strategy").at("text").get<std::string>() + " on " +
         data.at("request").at("gpus").dump();
}

}  // namespace

TEST_CASE("check reads the launch script that emit writes for Megatron") {
  for (const char* launcher : {"torchrun", "slurm", "mpirun"})
    for (const int gpus : {8, 16}) {
      CAPTURE(std::string(launcher));
      CAPTURE(gpus);
      const TemporaryDirectory here;
      const std::string folder = here.file("run");
      REQUIRE(run_line("emit --model llama3-8b --gpus " + std::to_string(gpus) +
                       " --strategy tp=2,pp=2,zero=1,micro=2,recompute=full "
                       "--seq 4096 --global-batch 64 --target megatron "
                       "--launcher " +
                       launcher + " -o " + folder)
                  .exit_code == 0);
      const std::string gpu = " --gpus " + std::to_string(gpus);
      const std::string alone = checked(folder + "/args.sh", gpu);
      CHECK(checked(folder + "/launch.sh", "") == alone);
      CHECK(alone.ends_with(" on " + std::to_string(gpus)));
    }
}

// NVIDIA/Megatron-LM megatron/training/arguments.py; issue 2272.
TEST_CASE("a script for Megatron is looked through for what it sets") {
  const auto rules = [](const std::string& script) {
    const Configuration read =
        find_format("megatron")
            .read("a.sh", script + " --micro-batch-size 1", {});
    std::string found;
    for (const Finding& finding : read.findings) found += finding.rule + " ";
    return found;
  };
  const std::string start =
      "torchrun --nnodes 1 --nproc-per-node 8 pretrain_gpt.py ";
  const std::string tensor = "--tensor-model-parallel-size 2";
  CHECK(rules(start + tensor) == "connections-not-one ");
  CHECK(
      rules("export CUDA_DEVICE_MAX_CONNECTIONS=1\n" + start + tensor).empty());
  CHECK(rules(tensor).empty());  // arguments alone: set elsewhere
  CHECK(rules("CUDA_DEVICE_MAX_CONNECTIONS=1 " + start +
              "--use-megatron-fsdp") == "fsdp-needs-connections ");
  CHECK(rules(start + "--use-megatron-fsdp").empty());
  const std::string fp8 =
      start +
      "--fp8-format hybrid --fp8-recipe mxfp8 --fp8-param-gather "
      "--reuse-grad-buf-for-mxfp8-param-ag ";
  CHECK(rules(fp8) == "mxfp8-needs-overlap ");
  CHECK(rules(fp8 + "--overlap-grad-reduce --overlap-param-gather").empty());
}

TEST_CASE("words of a launcher are none of the program's") {
  const ShellArguments read = parse_arguments(
      "GPUS=8\nD=(--nproc_per_node $GPUS --nnodes $N)\n"
      "torchrun ${D[@]} --rdzv-id \"$J\" pretrain_gpt.py --num-layers 4 $@\n");
  CHECK(read.names == std::vector<std::string>{"num-layers"});
  CHECK(read.flags.at("num-layers").front() == "4");
  CHECK(read.unresolved.empty() == false);  // $@ after it
  CHECK(read.assigned.at("GPUS") == "8");
}

TEST_CASE("ranks are read where a script says them in numbers") {
  const auto ranks = [](const char* text) {
    const auto read = launched_ranks(text);
    return read ? read->nodes * 1000 + read->per_node : 0;
  };
  CHECK(ranks("G=8\ntorchrun --nnodes 2 --nproc_per_node=$G a.py") == 2008);
  CHECK(ranks("torchrun --standalone --nproc-per-node 4 a.py") == 1004);
  CHECK(ranks("#SBATCH --nodes=3\n#SBATCH --gpus-per-node=8\n"
              "srun torchrun --nnodes $N --nproc-per-node 8 a.py") == 3008);
  CHECK(ranks("mpirun -np 16 --npernode 8 python a.py") == 2008);
  CHECK(ranks("torchrun --nnodes $N --nproc-per-node 8 a.py") == 0);
  CHECK(ranks("mpirun -np 4 --npernode 8 python a.py") == 0);
  CHECK(ranks("torchrun --nnodes 0 --nproc-per-node -8 a.py") == 0);
  CHECK(ranks("") == 0);
}

TEST_CASE("sourced files stand in the place of their lines") {
  const TemporaryDirectory here;
  here.write("args.sh", "A=1");
  here.write("more.sh", "B=2\n");
  const std::string script = here.file("launch.sh");
  CHECK(with_sources(script, ". ./args.sh\nsource 'more.sh'\necho\n") ==
        "A=1\nB=2\n\necho\n");
  CHECK(with_sources(script, "  . none.sh\n. $X/args.sh\n. a b") ==
        ". $X/args.sh\n. a b");
  CHECK(with_sources(script, "").empty());
  CHECK(is_shell_script("a.sh", ""));
  CHECK(is_shell_script("a", "#!/bin/bash\n"));
  CHECK_FALSE(is_shell_script("a.json", "{}"));
}
