#include "report/command_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace ztplan {
namespace {

// What a key of a strategy's text is when it is left out.
bool is_default(std::string_view item, const Strategy& strategy) {
  constexpr std::array<std::string_view, 10> kDefaults = {
      "tp=1", "pp=1",   "vpp=1",        "cp=1",           "ep=1",
      "sp=0", "zero=0", "offload=none", "recompute=none", "micro=1"};
  if (item.starts_with("dp=")) return true;
  if (item.starts_with("schedule=")) {
    return item == (strategy.virtual_stages > 1 ? "schedule=interleaved"
                                                : "schedule=1f1b");
  }
  return std::ranges::find(kDefaults, item) != kDefaults.end();
}

bool is_safe(char c) {
  constexpr std::string_view kSafe = "_-./:=,+@%";
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         kSafe.find(c) != std::string_view::npos;
}

class CommandLine {
 public:
  explicit CommandLine(std::string start) : line_(std::move(start)) {}

  void add(std::string_view flag, const std::string& value) {
    if (!value.empty()) {
      line_ += fmt::format(" {} {}", flag, shell_word(value));
    }
  }
  void add(std::string_view flag, int value) {
    if (value > 0) add(flag, fmt::format("{}", value));
  }
  std::string take() { return std::move(line_); }

 private:
  std::string line_;
};

void add_machine(CommandLine& line, const Request& request) {
  const ClusterOverrides& machine = request.machine;
  line.add("--cluster", request.cluster);
  line.add("--gpu", machine.gpu);
  line.add("--gpus-per-node", machine.gpus_per_node);
  line.add("--network", machine.network);
  line.add("--intra", machine.intra);
  line.add("--p2p", machine.p2p);
  line.add("--host-memory", machine.host_memory);
  line.add("--nvme", machine.nvme);
}

void add_training(CommandLine& line, const Asked& asked) {
  const Request& request = asked.request;
  line.add("--engine", request.engine);
  line.add("--seq", request.sequence);
  const bool batch = request.global_batch > 0 || request.batch_tokens > 0;
  line.add("--global-batch", batch ? asked.question.workload.global_batch : 0);
  if (request.precision) {
    line.add("--precision", std::string(to_text(*request.precision)));
  }
  if (request.gradient) {
    line.add("--grad-dtype", std::string(to_text(*request.gradient)));
  }
  if (request.attention) {
    line.add("--attention", std::string(to_text(*request.attention)));
  }
}

}  // namespace

std::string short_text(const Strategy& strategy) {
  std::string out;
  std::string rest = to_text(strategy);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    const std::string item = rest.substr(0, end);
    rest.erase(0, end + 1);
    if (is_default(item, strategy)) continue;
    out += (out.empty() ? "" : ",") + item;
  }
  return out.empty() ? "tp=1" : out;
}

std::string command_text(std::string_view command, const Asked& asked,
                         int gpus) {
  CommandLine line(fmt::format("ztplan {}", command));
  line.add("--model", asked.request.model);
  line.add("--gpus", gpus);
  add_machine(line, asked.request);
  add_training(line, asked);
  return line.take();
}

std::string shell_word(const std::string& word) {
  if (!word.empty() && std::ranges::all_of(word, is_safe)) return word;
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

}  // namespace ztplan
