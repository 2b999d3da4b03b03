// How a run ends that cannot go on: with one message of each that is left, the
// exit code of its kind, and a checkpoint from which it goes on.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "base/json.h"
#include "exec/checkpoint_store.h"
#include "support/processes.h"

using namespace ztplan;

namespace {

const std::string kThreeRanks =
    kSmallGpt + "--strategy dp=3,zero=1 --data text.txt --global-batch 6 ";
const std::string kForEver =
    kThreeRanks + "--steps 1000000 --checkpoint saved --save-every 2 ";

/// How often a text is said, on either stream.
int times_said(const Run& run, const std::string& text) {
  int times = 0;
  const std::string all = run.output + run.errors;
  for (std::size_t at = all.find(text); at != std::string::npos;
       at = all.find(text, at + 1))
    ++times;
  return times;
}

/// How many of the two that are left say it: mpirun may end one before it can,
/// where the machine is busy. None says it twice.
int survivors_that_say(const Run& run, const std::string& text) {
  const int first = times_said(run, "rank 0: " + text);
  const int last = times_said(run, "error: rank 2: " + text);
  CHECK(first <= 1);
  CHECK(last <= 1);
  return first + last;
}

/// From the newest whole checkpoint, two steps on.
void check_goes_on(const TemporaryDirectory& here) {
  const auto whole = whole_checkpoints(here.file("saved"));
  REQUIRE_FALSE(whole.empty());
  const Run rest = run_threads(
      here, kThreeRanks + fmt::format("--checkpoint saved --resume --steps {}",
                                      whole.back() + 2));
  CHECK(rest.exit_code == 0);
  CHECK(rest.end.at("resumed_from") == whole.back());
  REQUIRE(rest.steps.size() == 2);
  for (const auto& step : rest.steps) CHECK(step.at("loss").is_number());
}

/// Rank 1 of three suffers it. mpirun gives the others time, on a busy machine
/// as well, to say what they have to say.
Run run_with_victim(const TemporaryDirectory& here, const std::string& fault,
                    const std::string& more) {
  const std::string line = run_line(kForEver + more);
  return run_mpirun(
      here,
      fmt::format(
          "--mca odls_base_sigkill_timeout 3 -n 1 {} : -n 1 {}{} : -n 1 {}",
          line, victim_line(here, fault), line, line));
}

/// A small GPT's weights of which one is no number.
void write_sick_weights(const TemporaryDirectory& here) {
  const Run well = run_threads(
      here, kThreeRanks + "--steps 1 --save-weights sick.safetensors");
  REQUIRE(well.exit_code == 0);
  std::string bytes =
      read_file(here.file("sick.safetensors"), Bytes{16 * kMiB});
  bytes.replace(bytes.size() - 4, 4, "\xff\xff\xff\xff");
  here.write("sick.safetensors", bytes);
}

}  // namespace

TEST_CASE("faults: a process that is killed is missed by the others") {
  if (!can_start_processes()) return;
  TemporaryDirectory here;
  const Run run = run_with_victim(here, "KILL", "");
  // mpirun's: that of SIGKILL, or of a survivor if it hears of that first.
  CHECK((run.exit_code == 137 || run.exit_code == 1));
  CHECK(survivors_that_say(run, "rank 1 is gone") > 0);
  check_goes_on(here);
}

TEST_CASE("faults: a process that stands still is given up") {
  if (!can_start_processes()) return;
  TemporaryDirectory here;
  const Run run = run_with_victim(here, "STOP", "--patience 20s ");
  CHECK(run.exit_code == 1);
  CHECK(survivors_that_say(run, "rank 1 did not come within 20 s") > 0);
  check_goes_on(here);
}

TEST_CASE("faults: a process whose disk is full ends all") {
  if (!can_start_processes()) return;
  TemporaryDirectory here;
  const Run run = run_with_victim(here, "FULL", "");
  CHECK(run.exit_code == 1);
  CHECK(times_said(run, "error: rank 1: cannot write \"saved/step-") == 1);
  CHECK(survivors_that_say(run, "rank 1 failed: cannot write") > 0);
  check_goes_on(here);
}

TEST_CASE("faults: a process asked to stop ends all with a checkpoint") {
  if (!can_start_processes()) return;
  TemporaryDirectory here;
  const Run run = run_with_victim(here, "TERM", "");
  CHECK(run.exit_code == 130);
  CHECK(run.end.at("interrupted") == true);
  CHECK(whole_checkpoints(here.file("saved")).back() ==
        run.steps.back().at("step"));
  check_goes_on(here);
}

TEST_CASE("faults: processes say of bad input once what threads say") {
  if (!can_start_processes()) return;
  struct Row {
    std::string words;
    int exit_code;
    std::string says;
  };
  const std::string batch = kSmallGpt + "--global-batch 4 ";
  const std::string text = batch + "--data text.txt ";
  const std::string two = text + "--strategy dp=2 ";
  TemporaryDirectory here;
  for (const Row& row : {
           Row{"-n 2 " + run_line(batch + "--strategy dp=2 --data none.txt"), 2,
               "none.txt"},
           Row{"-n 2 " + run_line(two + "--warmup 1000"), 2, "--warmup 1000"},
           Row{"-n 2 " + run_line(text + "--strategy dp=3"), 4,
               "is not a multiple"},
           Row{"-n 3 " + run_line(two), 2,
               "the plan is of 2 GPUs, but 3 processes were started"},
           Row{"-n 1 " + run_line(two) + " : -n 1 " +
                   run_line(two + "--seed 2"),
               2, "rank 1 was started with another plan"},
           Row{"-n 1 " + run_line(two) + " : -n 1 " +
                   run_line(text + "--strategy tp=2,dp=1"),
               2, "rank 1 was started with another plan"},
       }) {
    CAPTURE(row.words);
    const Run run = run_mpirun(here, row.words);
    CHECK(run.exit_code == row.exit_code);
    CHECK(times_said(run, row.says) == 1);
    CHECK(run.steps.empty());
  }
}

TEST_CASE("faults: two runs do not share a folder of checkpoints") {
  TemporaryDirectory here;
  const CheckpointStore other_run(here.file("saved"));
  const std::string words = kThreeRanks + "--steps 2 --checkpoint saved";
  const std::string says = "another run keeps its checkpoints in";
  const Run threads = run_threads(here, words);
  CHECK(threads.exit_code == 2);
  CHECK(times_said(threads, says) == 1);
  if (!can_start_processes()) return;
  const Run processes = run_processes(here, 3, words);
  CHECK(processes.exit_code == 2);
  CHECK(times_said(processes, "rank 0: " + says) == 1);
  CHECK(times_said(processes, "error: rank 1: rank 0 failed: " + says) == 1);
  CHECK(times_said(processes, "error: rank 2: rank 0 failed: " + says) == 1);
  CHECK(whole_checkpoints(here.file("saved")).empty());
}

TEST_CASE("faults: a loss that is no number ends the run") {
  TemporaryDirectory here;
  write_sick_weights(here);
  const std::string words = kThreeRanks + "--steps 3 --checkpoint saved ";
  const std::string sick = words + "--weights sick.safetensors";
  const std::string says = "step 1: the loss is nan and its gradients";
  const Run threads = run_threads(here, sick);
  CHECK(threads.exit_code == 1);
  CHECK(times_said(threads, says) == 1);
  CHECK(whole_checkpoints(here.file("saved")).empty());
  if (!can_start_processes()) return;
  const Run processes = run_processes(here, 3, sick);
  CHECK(processes.exit_code == 1);
  CHECK(times_said(processes, says) == 3);
  for (const char* rank : {"rank 0: ", "error: rank 1: ", "error: rank 2: "})
    CHECK(times_said(processes, rank) == 1);
  CHECK(run_threads(here, words + "--resume").exit_code == 0);
}

TEST_CASE("faults: a drive without room for offloaded states is full") {
  TemporaryDirectory here;
  std::filesystem::create_directory(here.file("states"));
  // No file grows beyond what states of this model take.
  const Run run = run_line_in(
      here, "/usr/bin/env prlimit --fsize=20000 " +
                run_line(kSmallGpt +
                         "--data text.txt --global-batch 4 --steps 2 --nvme "
                         "1TB@2GB/s --strategy dp=2,zero=1,offload=nvme "
                         "--offload-folder states --checkpoint saved"));
  CHECK(run.exit_code == 1);
  CHECK(times_said(run, "no room for offloaded states in") == 1);
  CHECK(times_said(run, "free some space, or write to another disk") == 1);
  CHECK(run.steps.empty());
  CHECK(std::filesystem::is_empty(here.file("states")));
  CHECK(whole_checkpoints(here.file("saved")).empty());
}

TEST_CASE("faults: threads that are killed or whose disk is full go on") {
  struct Row {
    std::string fault;
    int exit_code;
    std::string says;
  };
  for (const Row& row :
       {Row{"KILL", 137, ""}, Row{"FULL", 1, "cannot write \\\"saved/step-"}}) {
    CAPTURE(row.fault);
    TemporaryDirectory here;
    const Run run = run_victim(here, row.fault, kForEver);
    CHECK(run.exit_code == row.exit_code);
    if (!row.says.empty()) CHECK(times_said(run, row.says) == 1);
    check_goes_on(here);
  }
}
