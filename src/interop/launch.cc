#include "interop/launch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/quantity_text.h"

namespace ztplan {
namespace {

constexpr char kStart[] =
    "#!/usr/bin/env bash\n# {}\nset -euo pipefail\n"
    "cd \"$(dirname -- \"${{BASH_SOURCE[0]}}\")\"\n";

std::string arguments_of(const Launch& launch) {
  std::string text;
  for (const std::string& argument : launch.arguments)
    text += fmt::format(" \\\n  {}", argument);
  return text;
}

std::string exports_of(const Launch& launch) {
  std::string text = launch.prelude;
  for (const auto& [name, value] : launch.environment)
    text += fmt::format("export {}={}\n", name, value);
  return text;
}

/// accelerate's own words for the machines; `rank` is the node's.
std::string node_command(const Ranks& ranks, const Launch& launch,
                         std::string_view rank, std::string_view address) {
  return fmt::format(
      "{} \\\n  --num_machines {} --num_processes {} --machine_rank {} \\\n"
      "  --main_process_ip {} --main_process_port \"${{MASTER_PORT:-29500}}\" "
      "\\\n  {}{}\n",
      launch.node_command, ranks.nodes, ranks.nodes * ranks.per_node, rank,
      address, launch.program, arguments_of(launch));
}

constexpr char kMaster[] = "\"${MASTER_ADDR:?name the first node}\"";

std::string torchrun(const Ranks& ranks, const Launch& launch) {
  if (!launch.node_command.empty())
    return "exec " + node_command(ranks, launch, "\"${NODE_RANK:-0}\"",
                                  ranks.nodes == 1 ? "localhost" : kMaster);
  if (ranks.nodes == 1)
    return fmt::format(
        "exec torchrun --standalone --nproc-per-node {} \\\n  {}{}\n",
        ranks.per_node, launch.program, arguments_of(launch));
  return fmt::format(
      "# On every node, with MASTER_ADDR naming the first of them.\n"
      "exec torchrun --nnodes {} --nproc-per-node {} \\\n"
      "  --rdzv-id \"${{JOB_ID:-ztplan}}\" --rdzv-backend c10d \\\n"
      "  --rdzv-endpoint \"${{MASTER_ADDR:?name the first node}}:"
      "${{MASTER_PORT:-29500}}\" \\\n  {}{}\n",
      ranks.nodes, ranks.per_node, launch.program, arguments_of(launch));
}

std::string slurm_by_node(const Ranks& ranks, const Launch& launch) {
  return "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head "
         "-n 1)\nexport MASTER_ADDR\n"
         "# shellcheck disable=SC2016  # every node expands its own rank\n"
         "exec srun bash -c '" +
         node_command(ranks, launch, "$SLURM_NODEID", "$MASTER_ADDR") +
         "' node \"$@\"\n";
}

std::string slurm(const Ranks& ranks, const Launch& launch) {
  if (!launch.node_command.empty()) return slurm_by_node(ranks, launch);
  return fmt::format(
      "mapfile -t nodes < <(scontrol show hostnames \"$SLURM_JOB_NODELIST\")\n"
      "exec srun torchrun --nnodes \"$SLURM_NNODES\" --nproc-per-node {} \\\n"
      "  --rdzv-id \"$SLURM_JOB_ID\" --rdzv-backend c10d \\\n"
      "  --rdzv-endpoint \"${{nodes[0]}}:${{MASTER_PORT:-29500}}\" \\\n"
      "  {}{}\n",
      ranks.per_node, launch.program, arguments_of(launch));
}

std::string slurm_header(const Ranks& ranks) {
  return fmt::format(
      "#!/usr/bin/env bash\n#SBATCH --job-name=ztplan\n#SBATCH --nodes={}\n"
      "#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node={}\n"
      "#SBATCH --exclusive\n# sbatch launch.sh, in this folder\nset -euo "
      "pipefail\ncd \"${{SLURM_SUBMIT_DIR:-.}}\"\n",
      ranks.nodes, ranks.per_node);
}

constexpr char kDeepSpeed[] =
    "# Passwordless ssh to every host of the hostfile; settings that they\n"
    "# need too go to .deepspeed_env.\n"
    "exec deepspeed --hostfile hostfile --master_port "
    "\"${MASTER_PORT:-29500}\" \\\n  ";

/// DeepSpeed starts this script once a host, which sees all of its GPUs.
/// Source: deepspeedai/DeepSpeed, deepspeed/launcher/launch.py.
std::string deepspeed_by_node(const Ranks& ranks, const Launch& launch) {
  return "if [[ ${1-} == node ]]; then\n  shift\n"
         "  unset CUDA_VISIBLE_DEVICES\n  exec " +
         node_command(ranks, launch, "\"$RANK\"", "\"$MASTER_ADDR\"") + "fi\n" +
         kDeepSpeed +
         "--num_gpus 1 --no_python --no_local_rank bash launch.sh node "
         "\"$@\"\n";
}

std::string deepspeed(const Ranks& ranks, const Launch& launch) {
  if (!launch.node_command.empty()) return deepspeed_by_node(ranks, launch);
  return kDeepSpeed +
         fmt::format("{}{}\n", launch.program, arguments_of(launch));
}

std::string mpirun_by_node(const Ranks& ranks, const Launch& launch) {
  return fmt::format(
             "export MASTER_ADDR=\"${{MASTER_ADDR:?name the first node}}\"\n"
             "# shellcheck disable=SC2016  # every node expands its own rank\n"
             "exec mpirun -np {} --npernode 1 --hostfile hostfile \\\n"
             "  -x MASTER_ADDR bash -c '",
             ranks.nodes) +
         node_command(ranks, launch, "$OMPI_COMM_WORLD_RANK", "$MASTER_ADDR") +
         "' node \"$@\"\n";
}

std::string mpirun(const Ranks& ranks, const Launch& launch) {
  if (!launch.node_command.empty()) return mpirun_by_node(ranks, launch);
  std::string exported;
  for (const auto& [name, value] : launch.environment)
    exported += fmt::format(" -x {}", name);
  return fmt::format(
      "export MASTER_ADDR=\"${{MASTER_ADDR:?name the first node}}\"\n"
      "export MASTER_PORT=\"${{MASTER_PORT:-29500}}\"\n"
      "# shellcheck disable=SC2016  # the ranks expand their own variables\n"
      "exec mpirun -np {} --npernode {} --hostfile hostfile \\\n"
      "  -x MASTER_ADDR -x MASTER_PORT{} bash -c '\n"
      "    export RANK=$OMPI_COMM_WORLD_RANK\n"
      "    export WORLD_SIZE=$OMPI_COMM_WORLD_SIZE\n"
      "    export LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK\n"
      "    exec python \"$@\"' rank \\\n  {}{}\n",
      ranks.nodes * ranks.per_node, ranks.per_node, exported, launch.program,
      arguments_of(launch));
}

std::string script_of(const Ranks& ranks, Launcher launcher,
                      const Launch& launch) {
  std::string start = fmt::format(kStart, launch.note);
  switch (launcher) {
    case Launcher::torchrun:
      return start + exports_of(launch) + torchrun(ranks, launch);
    case Launcher::slurm:
      return slurm_header(ranks) + exports_of(launch) + slurm(ranks, launch);
    case Launcher::deepspeed:
      return start + exports_of(launch) + deepspeed(ranks, launch);
    case Launcher::mpirun:
      return start + exports_of(launch) + mpirun(ranks, launch);
  }
  return start;
}

/// Host names are the user's to fill in.
EmittedFile hostfile(const Ranks& ranks) {
  std::string text;
  for (int i = 1; i <= ranks.nodes; ++i)
    text += fmt::format("node{} slots={}\n", i, ranks.per_node);
  return {"hostfile", text};
}

bool reads_hosts(Launcher launcher) {
  return launcher == Launcher::deepspeed || launcher == Launcher::mpirun;
}

/// A list of what the files leave to the user; nothing where they say all.
std::string left_out(const std::vector<std::string>& unsaid) {
  if (unsaid.empty()) return "";
  return fmt::format("Not in these files, and yours to do:\n- {}\n",
                     fmt::join(unsaid, "\n- "));
}

EmittedFile readme_file(const Emission& emission, const Launch& launch,
                        const std::vector<std::string>& unsaid) {
  const Plan& plan = emission.plan;
  const Ranks ranks = ranks_of(emission);
  const bool slurm = emission.launcher == Launcher::slurm;
  const bool hosts = reads_hosts(emission.launcher);
  return {
      "README.md",
      fmt::format(
          "{} on {} GPUs ({} x {}), for {} {}: `{}`.\n"
          "Needs: {}.\n"
          "Start: {}`{} launch.sh`{}.\n"
          "Expect: {} of {} on a GPU, {:.3g} s a step ({:.3g} to {:.3g}).\n"
          "Compare: the first steps against `ztplan simulate --engine-version "
          "{}` with this strategy; a run that dies, `ztplan diagnose LOG`.\n",
          emission.question.model.name, plan.gpus, ranks.nodes, ranks.per_node,
          plan.engine->name, plan.engine->version, to_text(plan.strategy),
          launch.note, hosts ? "put host names into `hostfile`, then " : "",
          slurm ? "sbatch" : "bash",
          ranks.nodes > 1 && emission.launcher == Launcher::torchrun
              ? " on every node"
              : "",
          text(plan.memory.peak()), text(plan.capacity),
          plan.time.total().value, plan.low.value, plan.high.value,
          emission.question.workload.framework.file) +
          left_out(unsaid)};
}

}  // namespace

Ranks ranks_of(const Emission& emission) {
  const int gpus = emission.plan.gpus;
  const int per_node =
      std::min(gpus, emission.question.cluster.devices_per_node);
  return {static_cast<int>(divide_up(gpus, per_node)), per_node};
}

Emitted with_launch(const Emission& emission, const Launch& launch,
                    std::vector<EmittedFile> configuration,
                    std::vector<std::string> unsaid) {
  const Ranks ranks = ranks_of(emission);
  Emitted emitted{std::move(configuration), std::move(unsaid)};
  emitted.files.push_back(
      {"launch.sh", script_of(ranks, emission.launcher, launch), true});
  if (reads_hosts(emission.launcher)) emitted.files.push_back(hostfile(ranks));
  emitted.files.push_back(readme_file(emission, launch, emitted.unsaid));
  return emitted;
}

}  // namespace ztplan
