#include "interop/format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/nearest.h"
#include "base/quote.h"
#include "interop/formats.h"
#include "interop/shell_script.h"

namespace ztplan {
namespace {

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const FileFormat* format : formats()) names.emplace_back(format->name);
  return names;
}

struct LauncherName {
  std::string_view text;
  Launcher value;
};
constexpr LauncherName kLaunchers[] = {{"deepspeed", Launcher::deepspeed},
                                       {"torchrun", Launcher::torchrun},
                                       {"slurm", Launcher::slurm},
                                       {"mpirun", Launcher::mpirun}};

}  // namespace

std::string_view to_text(Launcher launcher) {
  for (const LauncherName& name : kLaunchers)
    if (name.value == launcher) return name.text;
  return "?";
}

Launcher parse_launcher(std::string_view text) {
  for (const LauncherName& name : kLaunchers)
    if (name.text == text) return name.value;
  throw Error(fmt::format("there is no launcher {}", quote(text)),
              "launchers: deepspeed, torchrun, slurm, mpirun");
}

std::span<const FileFormat* const> formats() {
  static const FileFormat* const all[] = {
      &deepspeed_format(),  &accelerate_format(), &torchtitan_format(),
      &colossalai_format(), &fsdp_format(),       &megatron_format()};
  return all;
}

const FileFormat& find_format(std::string_view name) {
  for (const FileFormat* format : formats())
    if (format->name == name) return *format;
  const std::vector<std::string> names = format_names();
  const std::string close = nearest_name(name, names);
  throw Error(fmt::format("there is no target {}; targets: {}", quote(name),
                          fmt::join(names, ", ")),
              close.empty() ? "" : fmt::format("did you mean {}?", close));
}

const FileFormat& recognize(std::string_view path, std::string_view text) {
  for (const FileFormat* format : formats())
    if (format->recognizes(path, text)) return *format;
  throw Error(fmt::format("{} looks like no configuration of {}", quote(path),
                          fmt::join(format_names(), ", ")),
              is_shell_script(path, text)
                  ? "check the file that it starts with, as ds_config.json"
                  : "name its format with --target");
}

}  // namespace ztplan
