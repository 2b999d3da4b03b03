// rewrite_weights MODEL_TYPE FROM TO: reads the parameters that stdin names, a
// line each in ztplan's names, and writes them as one safetensors file. What
// is left over in FROM goes to stdout. For of_safetensors.py.
#include <fmt/format.h>

#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "exec/huggingface_weights.h"

namespace {

using namespace ztplan;

int rewrite(const std::string& model_type, const std::string& from,
            const std::string& to) {
  const auto names = weight_names(model_type);
  require(names.has_value(), "a family that is known");
  const HuggingFaceWeights weights(TensorFiles::open(from), *names);
  std::vector<std::string> parameters;
  for (std::string line; std::getline(std::cin, line);) {
    parameters.push_back(line);
  }
  std::map<std::string, std::vector<std::byte>> data;
  std::map<std::string, TensorView> views;
  for (const std::string& name : parameters) {
    const auto [rows, columns] = weights.shape(name);
    std::vector<std::byte>& bytes = data[name];
    bytes.resize(static_cast<std::size_t>(rows * columns *
                                          bytes_of(weights.dtype(name))));
    weights.read(name, {0, rows, 0, columns}, bytes);
    const bool vector =
        name.ends_with("bias") || name.find("norm") != std::string::npos;
    views[name] = {weights.dtype(name),
                   vector ? std::vector{columns} : std::vector{rows, columns},
                   bytes};
  }
  write_huggingface(to, *names, views);
  for (const std::string& name : weights.left_over(parameters)) {
    fmt::print("{}\n", name);
  }
  return 0;
}

}  // namespace

int main(int count, char** words) {
  try {
    ztplan::require(count == 4, "three arguments");
    return rewrite(words[1], words[2], words[3]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
