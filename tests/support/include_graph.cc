#include "support/include_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <regex>
#include <sstream>

namespace ztplan {
namespace {

using Names = std::vector<std::string>;

/// A room of the house and the rooms its files may include.
struct Room {
  std::string prefix;    // of its paths in the repository
  std::string included;  // of its headers in an #include
  Names sees;            // `included` prefixes, its own among them
};

/// The first room whose prefix a path has is its room.
const std::vector<Room>& rooms() {
  static const Names base{"base/"};
  static const Names spec{"base/", "spec/"};
  static const Names strategy{"base/", "spec/", "strategy/"};
  static const Names step{"base/", "spec/", "strategy/", "step/"};
  static const auto with = [](Names names,
                              std::initializer_list<const char*> more) {
    names.insert(names.end(), more.begin(), more.end());
    return names;
  };
  static const Names time = with(step, {"time/"});
  static const Names search = with(time, {"search/"});
  static const Names kernels = with(step, {"calibrate/kernels/"});
  static const Names all =
      with(search, {"report/", "interop/", "exec/", "calibrate/"});
  static const std::vector<Room> rooms{
      {"src/base/", "base/", base},
      {"src/spec/", "spec/", spec},
      {"src/strategy/", "strategy/", strategy},
      {"src/step/", "step/", step},
      {"src/time/", "time/", time},
      {"src/search/", "search/", search},
      {"src/report/", "report/", with(search, {"report/"})},
      {"src/interop/", "interop/", with(search, {"interop/"})},
      {"calibrate/kernels/", "calibrate/kernels/", kernels},
      {"src/exec/", "exec/", with(kernels, {"exec/"})},
      {"calibrate/", "calibrate/", with(kernels, {"exec/", "calibrate/"})},
      {"cli/", "cli/", with(all, {"cli/"})},
      {"bench/", "bench/", with(all, {"bench/"})},
      {"tests/", "support/", with(all, {"cli/", "support/", "fuzz/"})},
      {"examples/", "examples/", all},
  };
  return rooms;
}

/// A dependency and the files it may be included by.
struct Door {
  std::string dependency;
  std::regex included, allowed;
};

const std::vector<Door>& doors() {
  static const std::vector<Door> doors{
      {"nlohmann/json", std::regex("nlohmann/.*"),
       std::regex("src/base/json\\.cc|src/(report|interop)/.*\\.cc|tests/.*")},
      {"Boost.Graph", std::regex("boost/(graph|property_map|pending)/.*"),
       std::regex("src/step/step_graph\\.(h|cc)|tests/.*\\.cc")},
      {"Eigen", std::regex("(eigen3/)?Eigen/.*"),
       std::regex("calibrate/(fit|kernels/product)\\.cc|tests/.*\\.cc")},
      {"CUDA",
       std::regex("(cuda|cublas|curand|cub/|nvml|nvToolsExt|nccl|mma).*"),
       std::regex("(src/exec|calibrate/kernels)/.*\\.cu")},
      {"MPI", std::regex("mpi\\.h"), std::regex("src/exec/mpi/.*")},
      {"CLI11", std::regex("CLI/.*"), std::regex("cli/.*")},
      {"doctest", std::regex("doctest/.*"), std::regex("tests/.*")},
      {"Google Benchmark", std::regex("benchmark/.*"), std::regex("bench/.*")},
  };
  return doors;
}

std::optional<Room> room_of(const std::string& path) {
  const auto at = std::ranges::find_if(
      rooms(), [&](const Room& room) { return path.starts_with(room.prefix); });
  return at == rooms().end() ? std::nullopt : std::optional<Room>(*at);
}

bool may_include(const Room& room, const std::string& target) {
  return std::ranges::any_of(room.sees, [&](const std::string& prefix) {
    return target.starts_with(prefix);
  });
}

}  // namespace

std::vector<Include> includes_of(std::string_view source) {
  static const std::regex directive(
      R"(^\s*#\s*(?:include|import|include_next)\s*([<"])([^">]*)[">].*)");
  std::vector<Include> found;
  std::istringstream lines{std::string(source)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::smatch match;
    if (!std::regex_match(line, match, directive)) continue;
    found.push_back({number, match[2], match[1] == "<"});
  }
  return found;
}

std::vector<std::string> broken_rules(const std::string& path,
                                      std::string_view source) {
  const std::optional<Room> room = room_of(path);
  if (!room) return {path + ": stands in no room of the house"};
  std::vector<std::string> broken;
  for (const Include& include : includes_of(source)) {
    const auto report = [&](const std::string& rule) {
      broken.push_back(fmt::format("{}:{}: {}", path, include.line, rule));
    };
    if (!include.system && !may_include(*room, include.target)) {
      report(fmt::format("{} must not include \"{}\"", room->prefix,
                         include.target));
    }
    for (const Door& door : doors()) {
      if (!std::regex_match(include.target, door.included)) continue;
      if (std::regex_match(path, door.allowed)) continue;
      report(fmt::format("{} is not included here (<{}>)", door.dependency,
                         include.target));
    }
  }
  return broken;
}

}  // namespace ztplan
