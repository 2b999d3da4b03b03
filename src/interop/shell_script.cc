#include "interop/shell_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "base/json.h"

namespace ztplan {
namespace {

/// A backslash that carries a line on.
bool ends_line(std::string_view text, std::size_t i) {
  return text[i] == '\\' && i + 1 < text.size() &&
         (text[i + 1] == '\n' || text[i + 1] == '\r');
}

struct Words {
  std::vector<std::string> words;
  bool is_cut_off = false;  // inside quotes
};

/// Words of a shell script: quotes are taken off, comments and continuations
/// left out.
Words split_words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool started = false;
  char quote = 0;
  const auto end_word = [&] {
    if (started) words.push_back(word);
    word.clear();
    started = false;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote)
        quote = 0;
      else
        word += c;
      continue;
    }
    if (c == '\'' || c == '"') {
      quote = c;
      started = true;
    } else if (c == '#' && !started) {
      i = std::min(text.find('\n', i), text.size());
    } else if (ends_line(text, i) || c == ' ' || c == '\t' || c == '\n' ||
               c == '\r' || c == ';') {
      end_word();
    } else {
      word += c;
      started = true;
    }
  }
  end_word();
  return {std::move(words), quote != 0};
}

std::vector<std::string> words_of(std::string_view text) {
  return split_words(text).words;
}

bool is_name(std::string_view text) {
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return false;
  return std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (c >= '0' && c <= '9');
  });
}

/// "$NAME", "${NAME}" or "${NAME:-default}" by what the script assigned.
std::string resolved(const std::string& word,
                     const ShellArguments::Assigned& assigned) {
  if (!word.starts_with('$')) return word;
  std::string name = word.substr(1);
  std::string fallback = word;
  if (name.starts_with('{') && name.ends_with('}')) {
    name = name.substr(1, name.size() - 2);
    if (const auto colon = name.find(":-"); colon != std::string::npos) {
      fallback = name.substr(colon + 2);
      name.resize(colon);
    }
  }
  const auto found = assigned.find(name);
  return found == assigned.end() ? fallback : found->second;
}

/// Of the launcher and the program alike.
ShellArguments parse_all(std::string_view text) {
  ShellArguments parsed;
  auto& assigned = parsed.assigned;
  std::vector<std::string>* values = nullptr;
  std::string flag;
  Words words = split_words(text);
  parsed.is_cut_off = words.is_cut_off;
  for (std::string& word : words.words) {
    std::string value;
    bool has_value = false;
    if (!word.starts_with("--")) {
      const std::size_t equals = word.find('=');
      if (equals != std::string::npos && is_name(word.substr(0, equals))) {
        assigned[word.substr(0, equals)] = word.substr(equals + 1);
        word = word.substr(equals + 1);
        values = nullptr;
        if (word.starts_with('(')) word.erase(0, 1);
      }
      if (word == ")" || word == "(") {
        values = nullptr;
        continue;
      }
    }
    if (word.starts_with("--")) {
      if (word.ends_with(')')) word.pop_back();
      flag = word.substr(2);
      if (const auto equals = flag.find('='); equals != std::string::npos) {
        value = flag.substr(equals + 1);
        has_value = true;
        flag.resize(equals);
      }
      std::ranges::replace(flag, '_', '-');
      parsed.names.push_back(flag);
      values = &parsed.flags[flag];
      values->clear();
      if (!has_value) continue;
      word = value;
    }
    if (word.ends_with(".py")) values = nullptr;  // what the launcher starts
    if (values == nullptr) continue;
    const bool is_bare = word.find_first_of("()") != std::string::npos &&
                         word.ends_with(')') && !word.starts_with('(');
    if (is_bare) word.pop_back();
    word = resolved(word, assigned);
    if (word.starts_with('$'))
      parsed.unresolved.push_back(fmt::format("--{} {}", flag, word));
    values->push_back(word);
    if (is_bare) values = nullptr;
  }
  return parsed;
}

// Source: pytorch/pytorch torch/distributed/run.py; open-mpi/ompi
// docs/man-openmpi/man1/mpirun.1.rst.
constexpr std::string_view kLauncherFlags[] = {
    "nnodes",        "nproc-per-node",
    "standalone",    "node-rank",
    "master-addr",   "master-port",
    "rdzv-id",       "rdzv-backend",
    "rdzv-endpoint", "rdzv-conf",
    "max-restarts",  "monitor-interval",
    "redirects",     "tee",
    "role",          "local-ranks-filter",
    "hostfile",      "npernode",
    "bind-to",       "map-by",
    "mca",           "oversubscribe"};

bool is_launchers(std::string_view flag) {
  return std::ranges::find(kLauncherFlags, flag) != std::end(kLauncherFlags);
}

/// "--flag $VALUE"
bool is_of_launchers(std::string_view unresolved) {
  return is_launchers(unresolved.substr(2, unresolved.find(' ') - 2));
}

int number_or_zero(std::string_view text) {
  int value = 0;
  const auto [stop, problem] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole =
      problem == std::errc{} && stop == text.data() + text.size();
  return whole && value > 0 && value <= kMaxDevices ? value : 0;
}

int number_of(const ShellArguments& script, std::string_view flag) {
  const auto found = script.flags.find(flag);
  return found == script.flags.end() || found->second.empty()
             ? 0
             : number_or_zero(found->second.front());
}

/// N of a line "#SBATCH --flag=N".
int number_of_slurm(std::string_view text, std::string_view flag) {
  const std::string start = fmt::format("#SBATCH --{}=", flag);
  const std::size_t at = text.find(start);
  if (at == std::string_view::npos) return 0;
  const std::string_view rest = text.substr(at + start.size());
  return number_or_zero(rest.substr(0, rest.find_first_of(" \t\r\n")));
}

/// N of "mpirun -np N --npernode M".
std::optional<Ranks> ranks_of_mpirun(std::string_view text,
                                     const ShellArguments& script) {
  const int each = number_of(script, "npernode");
  const std::vector<std::string> words = words_of(text);
  const auto found = std::ranges::find(words, "-np");
  if (each == 0 || found == words.end() || found + 1 == words.end())
    return std::nullopt;
  const int all = number_or_zero(*(found + 1));
  if (all < each) return std::nullopt;
  return Ranks{all / each, each};
}

/// The file of a line ". ./args.sh", or nothing.
std::string sourced_by(std::string_view line) {
  const std::size_t start = line.find_first_not_of(" \t");
  if (start == std::string_view::npos) return "";
  line.remove_prefix(start);
  for (const std::string_view word : {". ", "source "})
    if (line.starts_with(word)) {
      const std::vector<std::string> words = words_of(line.substr(word.size()));
      const bool is_relative = words.size() == 1 && !words[0].empty() &&
                               words[0].find('$') == std::string::npos &&
                               words[0].front() != '/';
      return is_relative ? words[0] : "";
    }
  return "";
}

constexpr Bytes kLargestScript{4 * kMiB};

}  // namespace

ShellArguments parse_arguments(std::string_view text) {
  ShellArguments parsed = parse_all(text);
  std::erase_if(parsed.flags,
                [](const auto& flag) { return is_launchers(flag.first); });
  std::erase_if(parsed.names, is_launchers);
  std::erase_if(parsed.unresolved, is_of_launchers);
  return parsed;
}

bool is_shell_script(std::string_view path, std::string_view text) {
  return path.ends_with(".sh") || text.starts_with("#!");
}

std::string with_sources(std::string_view path, std::string_view text) {
  const auto folder = std::filesystem::path(path).parent_path();
  std::string whole;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::string_view line = text.substr(at, end - at);
    at = end;
    const std::string name = sourced_by(line);
    const std::filesystem::path file = folder / name;
    if (name.empty())
      whole += line;
    else if (std::filesystem::exists(file))
      whole += read_file(file.string(), kLargestScript) + "\n";
  }
  return whole;
}

std::optional<Ranks> launched_ranks(std::string_view text) {
  const ShellArguments script = parse_all(text);
  const int each = number_of(script, "nproc-per-node");
  const int nodes =
      script.flags.contains("standalone") ? 1 : number_of(script, "nnodes");
  if (each > 0 && nodes > 0) return Ranks{nodes, each};
  const int slurm_nodes = number_of_slurm(text, "nodes");
  const int slurm_each = number_of_slurm(text, "gpus-per-node");
  if (slurm_nodes > 0 && slurm_each > 0) return Ranks{slurm_nodes, slurm_each};
  return ranks_of_mpirun(text, script);
}

}  // namespace ztplan
