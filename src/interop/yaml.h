// YAML read strictly, through yaml-cpp: duplicate keys, deep nesting and
// documents that are no map are errors with file and line.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <string_view>
#include <vector>

namespace ztplan {

/// The map that `text` is. Throws `Error` naming `path`.
YAML::Node parse_yaml(std::string_view path, std::string_view text);

std::vector<std::string> keys_of(const YAML::Node& map);

/// Values of a key, or `missing` where it is absent or null. Throw `Error`
/// naming `path` and the key when it is something else.
bool truth_or(const YAML::Node& map, std::string_view path, const char* key,
              bool missing);
int whole_or(const YAML::Node& map, std::string_view path, const char* key,
             int missing);
std::string word_or(const YAML::Node& map, std::string_view path,
                    const char* key, const std::string& missing);

}  // namespace ztplan
