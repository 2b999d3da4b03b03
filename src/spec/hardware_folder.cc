#include "spec/hardware_folder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/nearest.h"
#include "base/quote.h"

namespace ztplan {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".json";

std::string_view folder_name(HardwareFolder folder) {
  switch (folder) {
    case HardwareFolder::devices:
      return "devices";
    case HardwareFolder::nodes:
      return "nodes";
    case HardwareFolder::clusters:
      return "clusters";
    case HardwareFolder::networks:
      return "networks";
    case HardwareFolder::frameworks:
      return "frameworks";
  }
  return "";
}

fs::path folder_path(HardwareFolder folder) {
  return fs::path(data_directory()) / "hardware" / folder_name(folder);
}

/// A name that cannot lead out of its folder.
bool is_plain(std::string_view name) {
  return !name.empty() && name.front() != '.' &&
         name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

JsonView find_or_refuse(HardwareFolder folder, std::string_view what,
                        std::string_view name) {
  std::optional<JsonView> file = find_hardware(folder, name);
  if (!file) refuse_name(what, name, {folder});
  return *std::move(file);
}

}  // namespace

std::string fold_name(std::string_view name) {
  std::string out(name);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == ' ' || c == '_') c = '-';
  }
  return out;
}

std::vector<std::string> aliases_of(const JsonView& file) {
  std::vector<std::string> aliases;
  if (!file.has("aliases")) return aliases;
  const JsonView list = file.at("aliases");
  for (std::size_t i = 0; i < list.size(); ++i) {
    aliases.push_back(list[i].string());
  }
  return aliases;
}

std::vector<std::string> hardware_ids(HardwareFolder folder) {
  std::vector<std::string> ids;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_path(folder), error)) {
    if (entry.path().extension() != kExtension) continue;
    ids.push_back(entry.path().stem().string());
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

JsonView load_hardware(HardwareFolder folder, const std::string& id) {
  const std::string file = id + std::string(kExtension);
  return JsonView::load((folder_path(folder) / file).string());
}

std::optional<JsonView> find_hardware(HardwareFolder folder,
                                      std::string_view name) {
  const std::string wanted = fold_name(name);
  if (!is_plain(wanted)) return std::nullopt;
  const std::vector<std::string> ids = hardware_ids(folder);
  if (std::binary_search(ids.begin(), ids.end(), wanted)) {
    return load_hardware(folder, wanted);
  }
  for (const std::string& id : ids) {
    JsonView file = load_hardware(folder, id);
    const std::vector<std::string> aliases = aliases_of(file);
    const bool named =
        std::find(aliases.begin(), aliases.end(), wanted) != aliases.end();
    if (named) return file;
  }
  return std::nullopt;
}

DeviceFile find_device(std::string_view name) {
  return parse_device(find_or_refuse(HardwareFolder::devices, "device", name));
}

NetworkSpec find_network(std::string_view name) {
  return parse_network(
      find_or_refuse(HardwareFolder::networks, "link or network", name));
}

void refuse_name(std::string_view what, std::string_view name,
                 std::initializer_list<HardwareFolder> folders) {
  std::vector<std::string> names;
  for (const HardwareFolder folder : folders) {
    for (const std::string& id : hardware_ids(folder)) {
      names.push_back(id);
      for (std::string& alias : aliases_of(load_hardware(folder, id))) {
        names.push_back(std::move(alias));
      }
    }
  }
  const std::string nearest = nearest_name(fold_name(name), names);
  std::string hint = "`ztplan hardware` lists them";
  if (!nearest.empty()) hint = "did you mean " + nearest + "? " + hint;
  throw Error("no " + std::string(what) + " " + quote(name), hint);
}

}  // namespace ztplan
