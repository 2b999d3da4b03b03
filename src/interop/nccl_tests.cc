// Source of both forms: NVIDIA/nccl-tests 2.19.6, src/util.cu and
// src/common.cu.
#include "interop/nccl_tests.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "base/quote.h"

namespace ztplan {
namespace {

constexpr Bytes kMost{256 * kMiB};
constexpr double kMicro = 1e-6, kGiga = 1e9;

struct OpName {
  std::string_view word;
  CollectiveOp op;
};
// Words of programs, of "Collective test starting: AllReduce" and of files.
constexpr std::array kOpNames = {
    OpName{"reducescatter", CollectiveOp::reduce_scatter},
    OpName{"allreduce", CollectiveOp::all_reduce},
    OpName{"allgather", CollectiveOp::all_gather},
    OpName{"alltoall", CollectiveOp::all_to_all},
    OpName{"sendrecv", CollectiveOp::send_receive}};

std::optional<CollectiveOp> op_in(std::string_view text) {
  std::string letters;
  for (const char c : text)
    if (std::isalpha(static_cast<unsigned char>(c)) != 0)
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const OpName& name : kOpNames)
    if (letters.find(name.word) != std::string::npos) return name.op;
  return {};
}

std::string base_name(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

template <class Number>
std::optional<Number> number_of(std::string_view word) {
  Number value{};
  const auto [stop, problem] =
      std::from_chars(word.data(), word.data() + word.size(), value);
  if (problem != std::errc{} || stop != word.data() + word.size()) return {};
  return value;
}

/// The time that a bandwidth in GB/s confirms. Both are rounded to some digits.
bool agrees(Bytes bytes, double microseconds, double bandwidth) {
  constexpr double kRounding = 0.05, kDigits = 0.0051;
  const double expected =
      static_cast<double>(bytes.value) / (microseconds * kMicro) / kGiga;
  return std::abs(expected - bandwidth) <= kRounding * expected + kDigits;
}

class TextLog {
 public:
  explicit TextLog(const std::string& path) : path_(path) {}

  NcclLog read(const std::string& text) && {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      ++number_;
      const std::size_t hash = line.find('#');
      if (hash != std::string::npos)
        read_comment(line.substr(hash));
      else
        read_row(line);
    }
    if (log_.rows.empty())
      throw Error(fmt::format("{}: no rows of nccl-tests", path_),
                  "give what all_reduce_perf and the like print, or -J wrote");
    finish();
    return std::move(log_);
  }

 private:
  void read_comment(const std::string& comment) {
    std::istringstream words(comment);
    std::string hash, first, on;
    words >> hash >> first;
    if (comment.find("Collective test starting:") != std::string::npos)
      op_ = op_in(comment);
    if (first != "Rank") return;
    ++log_.ranks;
    // "#  Rank  0 Group  0 Pid  1234 on    host device  0 [0x07] NVIDIA ...".
    while (words >> on)
      if (on == "on" && words >> on) {
        hosts_.insert(on);
        return;
      }
  }

  void read_row(const std::string& line) {
    std::istringstream stream(line);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    constexpr std::size_t kLeast =
        8;  // size count type redop root time 2 rates
    for (std::size_t i = 0; i + kLeast <= words.size(); ++i) {
      const auto size = number_of<std::int64_t>(words[i]);
      if (!size || !number_of<std::int64_t>(words[i + 1]) ||
          !is_type(words[i + 2]))
        continue;
      return add(*size, number_of<double>(words[i + 5]),
                 number_of<double>(words[i + 6]));
    }
  }

  static bool is_type(const std::string& word) {
    static const std::set<std::string> types{
        "int8",  "uint8",  "int32",    "uint32", "int64",  "uint64", "half",
        "float", "double", "bfloat16", "f8e4m3", "f8e5m2", "char",   "int"};
    return types.contains(word);
  }

  void add(std::int64_t size, std::optional<double> time,
           std::optional<double> bandwidth) {
    if (size == 0) return;
    if (!time || !bandwidth || !(*time > 0) ||
        !agrees(Bytes{size}, *time, *bandwidth))
      throw Error(
          fmt::format("{}: line {}: the bandwidth is not size over time", path_,
                      number_),
          "leave the line out, or run the test again");
    log_.rows.push_back({Bytes{size}, Seconds{*time * kMicro}});
  }

  void finish() {
    if (!op_) op_ = op_in(base_name(path_));
    if (!op_)
      throw Error(
          fmt::format("{} does not say which collective it is of", path_),
          "name the file so, as all_reduce.log");
    log_.op = *op_;
    if (log_.ranks < 2)
      throw Error(fmt::format("{} names no ranks", path_),
                  "keep the lines that begin with \"#  Rank\"");
    log_.nodes = std::max<int>(1, static_cast<int>(hosts_.size()));
    for (const std::string& host : hosts_)
      log_.hosts += (log_.hosts.empty() ? "" : ", ") + host;
  }

  const std::string& path_;
  std::size_t number_ = 0;
  std::optional<CollectiveOp> op_;
  std::set<std::string> hosts_;
  NcclLog log_;
};

/// Time of one side of a row; nothing where it was not run.
std::optional<Seconds> side_of(const JsonView& row, const char* side) {
  if (!row.has(side)) return {};
  const JsonView cells = row.at(side);
  const char* key = cells.has("time") ? "time" : "cpu_time";
  if (!cells.has(key) || !cells.at(key).is_number()) return {};
  const double time = cells.at(key).number();
  if (time <= 0) cells.at(key).fail("expected a time above 0");
  return Seconds{time * kMicro};
}

NcclLog read_json(const JsonView& file) {
  NcclLog log;
  const auto op = op_in(base_name(file.at("args")[0].string()));
  if (!op) file.at("args").fail("expected a collective that trainings have");
  log.op = *op;
  const JsonView devices = file.at("config").at("devices");
  std::set<std::string> hosts;
  for (std::size_t i = 0; i < devices.size(); ++i)
    hosts.insert(devices[i].at("hostname").string());
  log.ranks = static_cast<int>(devices.size());
  if (log.ranks < 2) devices.fail("expected two ranks at least");
  log.nodes = static_cast<int>(hosts.size());
  for (const std::string& host : hosts)
    log.hosts += (log.hosts.empty() ? "" : ", ") + host;
  const JsonView results = file.at("results");
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Bytes bytes{results[i].at("size").integer()};
    auto seconds = side_of(results[i], "out_of_place");
    if (!seconds) seconds = side_of(results[i], "in_place");
    if (bytes.value > 0 && seconds) log.rows.push_back({bytes, *seconds});
  }
  if (log.rows.empty()) results.fail("expected rows with a time");
  return log;
}

}  // namespace

NcclLog read_nccl_tests(const std::string& path) {
  return parse_nccl_tests(read_file(path, kMost), path);
}

NcclLog parse_nccl_tests(const std::string& text, const std::string& path) {
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  if (start != std::string::npos && text[start] == '{')
    return read_json(JsonView::parse(text, path));
  return TextLog(path).read(text);
}

}  // namespace ztplan
