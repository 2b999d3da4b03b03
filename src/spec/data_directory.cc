#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/quote.h"
#include "spec/catalog.h"

namespace ztplan {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVariable = "ZTPLAN_DATA";

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

std::string from_environment(const std::string& given) {
  if (is_folder(given)) return given;
  throw Error(std::string(kVariable) + ": no directory " + quote(given),
              "set it to the folder that holds models/ and hardware/");
}

/// Empty when the program's own path is not known.
fs::path beside_the_program() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return {};
  return program.parent_path().parent_path() / "share" / "ztplan";
}

}  // namespace

std::string data_directory() {
  const char* given = std::getenv(kVariable);
  if (given != nullptr && *given != '\0') return from_environment(given);
  const fs::path installed = beside_the_program();
  return is_folder(installed) ? installed.string() : ZTPLAN_SOURCE_DIR;
}

}  // namespace ztplan
