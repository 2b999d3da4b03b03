#include "report/command_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <type_traits>
#include <vector>

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
  template <class Word>
  void add(std::string_view flag, const std::optional<Word>& word) {
    if (word) add(flag, std::string(to_text(*word)));
  }
  template <class Word>
  void add_unless(const Word& usual, std::string_view flag, const Word& word) {
    if (word != usual) add(flag, std::string(to_text(word)));
  }
  std::string take() { return std::move(line_); }

 private:
  std::string line_;
};

void add_machine(CommandLine& line, const Asked& asked) {
  const ClusterOverrides& machine = asked.request.machine;
  line.add("--cluster", asked.request.cluster);
  line.add("--gpu", machine.gpu);
  line.add("--gpus-per-node", given_per_node(asked));
  line.add("--network", machine.network);
  line.add("--intra", machine.intra);
  line.add("--p2p", machine.p2p);
  line.add("--host-memory", machine.host_memory);
  line.add("--nvme", machine.nvme);
  line.add("--calibration", asked.request.calibration);
}

void add_training(CommandLine& line, const Asked& asked, int gpus) {
  const Request& request = asked.request;
  line.add("--engine", request.engine);
  line.add("--engine-version", request.engine_version);
  line.add("--seq", request.sequence);
  const bool fewer = gpus < asked.question.cluster.devices;
  const bool batch = request.global_batch > 0 || request.batch_tokens > 0;
  line.add("--global-batch",
           batch || fewer ? asked.question.workload.global_batch : 0);
  line.add("--precision", request.precision);
  line.add("--grad-dtype", request.gradient);
  line.add("--attention", request.attention);
  line.add("--optimizer", request.optimizer);
  line.add("--optimizer-dtype", request.moments);
  line.add("--param-dtype", request.parameter);
  line.add_unless({}, "--lora", request.adapters);
  line.add_unless(Quantize::none, "--quantize", request.quantize);
  line.add("--loss", request.loss);
  line.add_unless(Loading::partitioned, "--load", request.loading);
  line.add_unless(Lengths::equal, "--lengths", request.lengths);
  if (request.expert_load > 1)
    line.add("--expert-load", fmt::format("{}", request.expert_load));
  if (request.slowest < 1)
    line.add("--slowest", fmt::format("{}", request.slowest));
}

template <class Value>
std::string listed(const std::vector<Value>& values) {
  std::string text;
  for (const Value& value : values) {
    if (!text.empty()) text += ",";
    if constexpr (std::is_same_v<Value, int>)
      text += fmt::format("{}", value);
    else
      text += to_text(value);
  }
  return text;
}

void add_search(CommandLine& line, const Request& request) {
  const Limits& limits = request.limits;
  line.add("--tp", listed(limits.tensor));
  line.add("--pp", listed(limits.pipeline));
  line.add("--vpp", listed(limits.virtual_stages));
  line.add("--cp", listed(limits.context));
  line.add("--ep", listed(limits.expert));
  line.add("--etp", listed(limits.expert_tensor));
  line.add("--zero", listed(limits.zero));
  line.add("--offload", listed(limits.offload));
  line.add("--recompute", listed(limits.recompute));
  line.add("--micro-batch", listed(limits.micro_batch));
  line.add("--schedule", listed(limits.schedule));
  line.add_unless(Objective::time, "--objective", request.objective);
  if (request.margin > 0)
    line.add("--margin", fmt::format("{}", request.margin));
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
  add_machine(line, asked);
  add_training(line, asked, gpus);
  return line.take();
}

std::string larger_plan_text(const Asked& asked) {
  CommandLine line(
      command_text("plan", asked, 2 * asked.question.cluster.devices));
  add_search(line, asked.request);
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
