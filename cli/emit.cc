// ztplan emit: the files of an engine for a plan.
#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "base/json_writer.h"
#include "base/quote.h"
#include "cli/ask.h"
#include "cli/one_plan.h"
#include "interop/format.h"
#include "interop/plan_file.h"

namespace ztplan {
namespace {

constexpr const FlagGroup* kGroups[] = {&kEmitFlags,     &kModelFlags,
                                        &kMachineFlags,  &kTrainingFlags,
                                        &kStrategyFlags, &kOutputFlags};

/// Refuses an --engine that the target is not of.
void agree_on_engine(const Flags& flags, const FileFormat& format) {
  const std::string engine = engine_named(flags);
  if (engine.empty() ||
      find_engine(engine).name == std::string_view(format.engine))
    return;
  const std::string_view flag =
      flags.engine.empty() ? "--engine-version" : "--engine";
  throw Error(fmt::format("{} {} contradicts --target {}, which is of {}", flag,
                          quote(flags.engine.empty() ? flags.engine_version
                                                     : flags.engine),
                          format.name, format.engine),
              fmt::format("leave {} out, or choose a target of {}", flag,
                          find_engine(engine).name));
}

/// A plan file answers one question: refuses flags that ask another.
void ask_nothing_else(const Flags& flags) {
  for (const FlagGroup* group :
       {&kModelFlags, &kMachineFlags, &kTrainingFlags, &kStrategyFlags})
    for (const Flag& flag : group->flags) {
      const bool is_engine = flag.text == &Flags::engine;
      if (is_engine || flag.text == nullptr || (flags.*flag.text).empty())
        continue;
      throw Error(fmt::format("{} asks another question than the one that {} "
                              "answers",
                              flag.name, quote(flags.words[0])),
                  "plan again with it, or emit a --strategy without the file");
    }
}

/// What is to be emitted: a plan file, or a strategy given by flags.
Judged wanted(Flags flags, const FileFormat& format) {
  agree_on_engine(flags, format);
  PlanFile file;
  if (!flags.words.empty()) {
    ask_nothing_else(flags);
    file = read_plan_file(flags.words[0]);
  } else {
    flags.engine = format.engine;
    file.strategy = strategy_of(flags);
    file.request = request_of(flags);
    file.request.usual_version = format.version;
  }
  file.request.engine = format.engine;
  return judge(ask(file.request), file.strategy);
}

void write_files(const std::filesystem::path& folder,
                 const std::vector<EmittedFile>& files, Overwrite overwrite) {
  for (const EmittedFile& file : files)
    check_target((folder / file.name).string(), overwrite);
  for (const EmittedFile& file : files) {
    const std::string path = (folder / file.name).string();
    write_whole(path, overwrite, [&](std::ostream& out) { out << file.text; });
    using std::filesystem::perms;
    if (file.executable)
      std::filesystem::permissions(
          path, perms::owner_exec | perms::group_exec | perms::others_exec,
          std::filesystem::perm_options::add);
  }
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem)
    throw Error(fmt::format("cannot make {}: {}", quote(folder.string()),
                            problem.message()));
}

std::string emitted_json(const FileFormat& format, const std::string& folder,
                         const Plan& plan, const Emitted& emitted) {
  JsonWriter json(JsonWriter::Layout::indented);
  json.begin_object().field("schema", "ztplan.emit/1");
  json.field("target", format.name).field("engine", plan.engine->name);
  json.field("strategy", to_text(plan.strategy)).key("files").begin_array();
  for (const EmittedFile& file : emitted.files)
    json.value((std::filesystem::path(folder) / file.name).string());
  json.end_array().key("unsaid").begin_array();
  for (const std::string& key : emitted.unsaid) json.value(key);
  json.end_array().end_object();
  return json.take();
}

std::string emitted_text(const std::string& folder, const Emitted& emitted) {
  std::string text;
  for (const EmittedFile& file : emitted.files)
    text += (std::filesystem::path(folder) / file.name).string() + "\n";
  return text;
}

Exit run_emit(const Flags& flags, const Console& console) {
  if (flags.target.empty())
    throw Error("which engine?",
                "add --target deepspeed, megatron, fsdp, torchtitan, "
                "accelerate or colossalai");
  if (flags.output.empty()) throw Error("where to?", "add -o FOLDER");
  const FileFormat& format = find_format(flags.target);
  const Launcher launcher = flags.launcher.empty()
                                ? Launcher::torchrun
                                : parse_launcher(flags.launcher);
  const Judged found = wanted(flags, format);
  const Emitted emitted =
      format.emit({found.asked.question, found.plan, launcher});
  make_folder(flags.output);
  write_files(flags.output, emitted.files,
              flags.force ? Overwrite::yes : Overwrite::no);
  if (flags.json || flags.format == "json") {
    print(emitted_json(format, flags.output, found.plan, emitted));
    return Exit::yes;
  }
  print(emitted_text(flags.output, emitted));
  if (!console.quiet)
    for (const std::string& key : emitted.unsaid)
      note(fmt::format("note: not in these files: {}\n", key));
  return Exit::yes;
}

}  // namespace

const Command kEmit{
    "emit",
    "Writes a plan as the files of an engine, with a launch script.",
    "PLAN.json --target T -o FOLDER [flags]",
    {"ztplan emit plan.json --target deepspeed -o run/",
     "ztplan emit plan.json --target megatron --launcher slurm -o run/",
     "ztplan emit --model 7b --gpus 8 --strategy zero=3 --target fsdp -o run/"},
    kGroups,
    1,
    run_emit};

}  // namespace ztplan
