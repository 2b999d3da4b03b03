#include "cli/run_processes.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json_writer.h"
#include "cli/complain.h"
#include "cli/run_setup.h"
#include "cli/stop.h"
#include "exec/gather_texts.h"
#include "exec/process_world.h"
#include "report/question_json.h"

namespace ztplan {
namespace {

/// Standard output is rank 0's.
Format voice_of(int rank, const Console& console) {
  return rank == 0 ? console.format : Format::table;
}

/// Null where rank 0 throws why there is none. A launcher that knows nothing of
/// MPI leaves each process alone in its world.
std::unique_ptr<ProcessWorld> open_world(const Flags& flags,
                                         const Console& console,
                                         const LaunchedRank& launched) {
  try {
    const auto farewell = [&console,
                           rank = launched.rank](const std::string& why) {
      complain(std::make_exception_ptr(Mishap(why)),
               fmt::format("rank {}", rank), voice_of(rank, console));
    };
    auto world = open_process_world({patience_of(flags), farewell});
    if (world->size() == launched.world) return world;
    throw Error(fmt::format("{} processes were started, but MPI joins {}",
                            launched.world, world->size()),
                "start them with mpirun, or with srun --mpi=pmix");
  } catch (const Error&) {
    if (launched.rank == 0) throw;
    return nullptr;
  }
}

/// What ranks must have alike, to the last digit.
std::string alike(const RunSetup& setup) {
  const TrainingOptions& options = setup.options;
  JsonWriter json(JsonWriter::Layout::one_line);
  json.begin_object();
  write_question(json, setup.judged.asked);
  json.end_object();
  const LearningRate& rate = options.learning_rate;
  return fmt::format(
      "{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", json.take(),
      to_text(setup.judged.plan.strategy), rate.steps, rate.peak, rate.floor,
      rate.climb, options.weight_decay, options.clip, options.seed,
      options.checkpoint.path, options.checkpoint.every,
      options.checkpoint.keep, options.checkpoint.resume, options.weights,
      options.save_weights.empty(), setup.samples.per_epoch());
}

/// A rank that can begin, or the exit code for which it cannot.
struct Readiness {
  std::unique_ptr<const RunSetup> setup;
  std::exception_ptr failure;
  Exit exit = Exit::yes;
};

void check_world(const RunSetup& setup, int ranks) {
  const int planned = devices(setup.judged.plan.strategy);
  if (planned == ranks) return;
  throw Error(fmt::format("the plan is of {} GPUs, but {} processes were "
                          "started",
                          planned, ranks),
              fmt::format("start {} processes, one for each GPU", planned));
}

Readiness get_ready(const Flags& flags, int ranks) {
  Readiness ready;
  try {
    ready.setup = std::make_unique<const RunSetup>(set_up_run(flags));
    check_world(*ready.setup, ranks);
    if (!fits(*ready.setup)) ready.exit = Exit::nothing_fits;
  } catch (const std::exception&) {
    ready.failure = std::current_exception();
    ready.exit = exit_of(ready.failure);
  }
  return ready;
}

/// The first gets ready alone: what it leaves, such as byte pairs, the others
/// find.
Readiness get_ready_in_turn(const Flags& flags, Communicator& all) {
  if (all.rank() != 0) all.barrier(Lane::compute);
  Readiness mine = get_ready(flags, all.size());
  if (all.rank() == 0) all.barrier(Lane::compute);
  return mine;
}

/// What rank 0 makes of what all have told: the rank that is to speak and the
/// exit code of all, or no rank where all are ready.
struct Ruling {
  int speaker = -1;
  Exit exit = Exit::yes;
};

Ruling ruling_of(const std::vector<std::string>& told) {
  const auto failed = [](const std::string& text) {
    return text.size() == 1;  // an exit code; plans are longer
  };
  const auto first = std::ranges::find_if(told, failed);
  if (first != told.end())
    return {static_cast<int>(first - told.begin()),
            static_cast<Exit>((*first)[0] - '0')};
  const auto other = std::ranges::find_if(
      told, [&](const std::string& text) { return text != told[0]; });
  if (other == told.end()) return {};
  return {static_cast<int>(other - told.begin()), Exit::bad_input};
}

Ruling agree(Communicator& all, Device& device, const Readiness& mine) {
  const std::vector<std::string> told = gather_texts(
      all, device,
      mine.exit == Exit::yes ? alike(*mine.setup)
                             : fmt::format("{}", static_cast<int>(mine.exit)));
  Ruling ruling;
  if (all.rank() == 0) ruling = ruling_of(told);
  all.broadcast(Lane::compute, bytes_at(&ruling, sizeof ruling), 0);
  device.synchronize();
  return ruling;
}

void speak(const Readiness& mine, int rank, const Console& console) {
  const Format voice = voice_of(rank, console);
  if (mine.failure) {
    complain(mine.failure, "", voice);
  } else if (mine.exit == Exit::nothing_fits) {
    refuse_to_fit(*mine.setup);
  } else {
    const Error odd(
        fmt::format("rank {} was started with another plan, data or flags than "
                    "rank 0",
                    rank),
        "give every process the same command line and files");
    complain(std::make_exception_ptr(odd), "", voice);
  }
}

/// Returns once all have ended alike.
TrainingOutcome train(ProcessWorld& world, const RunSetup& setup,
                      const Console& console) {
  const auto device = make_cpu_device(
      setup.options.lanes, setup.judged.asked.question.cluster.device.memory);
  const auto ranks = world.join(*device);
  if (world.rank() == 0) print_start(setup, console);
  const StopsWhenAsked stops;
  try {
    return run_training_rank(job_of(setup), *device, *ranks, stops.asked(),
                             step_printer(setup, console));
  } catch (const std::exception& problem) {
    const Exit exit =
        complain(std::current_exception(), fmt::format("rank {}", world.rank()),
                 voice_of(world.rank(), console));
    world.end(static_cast<int>(exit), problem.what());
    throw;  // it has ended
  }
}

}  // namespace

Exit run_processes(const Flags& flags, const Console& console,
                   const LaunchedRank& launched) {
  const auto world = open_world(flags, console, launched);
  if (!world) return Exit::bad_input;
  const auto device = make_cpu_device(CpuLanes::immediate, Bytes{1});
  const auto all = world->join(*device);
  const Readiness mine = get_ready_in_turn(flags, *all);
  const Ruling ruling = agree(*all, *device, mine);
  if (ruling.speaker >= 0) {
    if (ruling.speaker == world->rank()) speak(mine, world->rank(), console);
    all->barrier(Lane::compute);  // it has spoken before any ends
    return ruling.exit;
  }
  const TrainingOutcome outcome = train(*world, *mine.setup, console);
  if (world->rank() == 0) return conclude(*mine.setup, outcome, flags, console);
  return outcome.interrupted ? Exit::interrupted : Exit::yes;
}

}  // namespace ztplan
