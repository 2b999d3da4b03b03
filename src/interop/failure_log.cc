#include "interop/failure_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/quote.h"

namespace ztplan {
namespace {

constexpr std::size_t kShownLine = 200;

struct Size {
  Bytes bytes, rounding;
};

/// The number and unit that `text` begins with, blanks before them left out:
/// "32.00 GiB", "8041 MB". PyTorch, DeepSpeed and Megatron-LM print GB and MB
/// for powers of two.
std::optional<Size> size_at(std::string_view text) {
  const std::size_t start = text.find_first_not_of(" \t:=|");
  if (start == std::string_view::npos) return std::nullopt;
  text.remove_prefix(start);
  double number = 0;
  const auto [stop, problem] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc{} || !(number >= 0) || number > 1e15)
    return std::nullopt;
  std::string_view digits(text.data(),
                          static_cast<std::size_t>(stop - text.data()));
  text.remove_prefix(digits.size());
  const std::size_t point = digits.find('.');
  const auto decimals = point == std::string_view::npos
                            ? 0
                            : static_cast<int>(digits.size() - point - 1);
  while (text.starts_with(' ')) text.remove_prefix(1);
  struct Unit {
    std::string_view name;
    std::int64_t bytes;
  };
  constexpr std::array kUnits = {Unit{"GiB", kGiB},        Unit{"GB", kGiB},
                                 Unit{"MiB", kMiB},        Unit{"MB", kMiB},
                                 Unit{"KiB", kKiB},        Unit{"KB", kKiB},
                                 Unit{"TiB", 1024 * kGiB}, Unit{"bytes", 1}};
  for (const Unit& unit : kUnits) {
    if (!text.starts_with(unit.name)) continue;
    const double each = static_cast<double>(unit.bytes);
    const double bytes = number * each;
    if (bytes > 9e18) return std::nullopt;
    constexpr double kTen = 10;
    const double half = each * std::pow(kTen, -decimals) / 2;
    return Size{Bytes{std::llround(bytes)}, Bytes{std::llround(half) + 1}};
  }
  return std::nullopt;
}

/// The size right after `words` in `line`.
std::optional<Size> size_after(std::string_view line, std::string_view words) {
  const std::size_t at = line.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  return size_at(line.substr(at + words.size()));
}

/// The size right before `words`: "79.20 GiB total capacity".
std::optional<Size> size_before(std::string_view line, std::string_view words) {
  const std::size_t at = line.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  std::size_t start = at;
  const auto is_part = [](char c) {
    return (c >= '0' && c <= '9') || c == '.' || c == ' ' || c == 'G' ||
           c == 'M' || c == 'K' || c == 'i' || c == 'B';
  };
  while (start > 0 && is_part(line[start - 1])) --start;
  return size_at(line.substr(start, at - start));
}

bool says(std::string_view line, std::string_view words) {
  return line.find(words) != std::string_view::npos;
}

bool is_host_kill(std::string_view line) {
  constexpr std::array<std::string_view, 12> kSigns = {
      "return code = -9",
      "exitcode: -9",
      "exitcode  : -9",
      "exit code: 137",
      "exit code 137",
      "exited with code 137",
      "SIGKILL",
      "oom-kill",
      "oom_kill",
      "Out of memory: Killed process",
      "DefaultCPUAllocator: not enough memory",
      "Signal 9"};
  return std::ranges::any_of(
             kSigns, [&](std::string_view sign) { return says(line, sign); }) ||
         line == "Killed" || line.ends_with(": Killed");
}

bool is_device_memory(std::string_view line) {
  constexpr std::array<std::string_view, 6> kSigns = {
      "CUDA out of memory",        "HIP out of memory",
      "OutOfMemoryError",          "CUBLAS_STATUS_ALLOC_FAILED",
      "CUDNN_STATUS_ALLOC_FAILED", "CUDA error: out of memory"};
  return std::ranges::any_of(
      kSigns, [&](std::string_view sign) { return says(line, sign); });
}

bool is_nccl_memory(std::string_view line) {
  const bool nccl = says(line, "NCCL") || says(line, "nccl");
  return nccl &&
         (says(line, "out of memory") || says(line, "unhandled cuda error") ||
          says(line, "Cuda failure 2"));
}

/// Frames name what ran: the innermost that is known wins.
void read_frame(std::string_view line, FailureLog& log) {
  const bool frame = says(line, "File \"") || line.starts_with("    ");
  if (!frame) return;
  if (says(line, "from_pretrained") || says(line, "load_state_dict") ||
      says(line, "load_checkpoint"))
    log.loading = true;
  if (says(line, "softmax")) log.scores = !says(line, "log_softmax");
  if (says(line, "cross_entropy") || says(line, "log_softmax"))
    log.phase = Phase::loss;
  else if (says(line, ".backward(") || says(line, "run_backward"))
    log.phase = Phase::backward;
  else if (says(line, "optimizer.step") || says(line, "exp_avg") ||
           says(line, "_init_group"))
    log.phase = Phase::step;
  else if (!log.phase && says(line, "forward("))
    log.phase = Phase::forward;
}

void keep_largest(std::optional<Bytes>& most, const std::optional<Size>& size) {
  if (size && (!most || *most < size->bytes)) most = size->bytes;
}

/// Lines that report use while all is well.
void read_report(std::string_view line, FailureLog& log) {
  if (says(line, "max allocated") || says(line, "max_allocated")) {
    // Megatron-LM: "memory (MB) | allocated: 1 | max allocated: 10824.0 | ..."
    const std::size_t at = line.find("max allocated");
    if (at != std::string_view::npos && says(line, "(MB)")) {
      const std::string_view rest = line.substr(at + 13);
      const std::size_t start = rest.find_first_of("0123456789");
      double number = 0;
      if (start != std::string_view::npos &&
          std::from_chars(rest.data() + start, rest.data() + rest.size(),
                          number)
                  .ec == std::errc{} &&
          number >= 0 && number < 1e9)
        keep_largest(
            log.peak,
            Size{Bytes{std::llround(number * static_cast<double>(kMiB))},
                 Bytes{}});
    }
  }
  keep_largest(log.peak, size_after(line, "Max_MA "));  // DeepSpeed
  if (says(line, "step:") || says(line, "tps:"))
    keep_largest(log.peak, size_after(line, "memory:"));  // torchtitan
}

void read_allocation(std::string_view line, FailureLog& log) {
  if (const auto size = size_after(line, "Tried to allocate")) {
    log.requested = size->bytes;
    log.rounding = size->rounding;
  }
  const auto take = [](std::optional<Bytes>& field,
                       const std::optional<Size>& size) {
    if (size) field = size->bytes;
  };
  take(log.capacity, size_before(line, " total capacity"));
  take(log.capacity, size_after(line, "has a total capacity of"));
  take(log.capacity, size_after(line, "has a total capacty of"));
  take(log.free, size_after(line, "of which"));
  take(log.free, size_before(line, " free;"));
  take(log.allocated, size_before(line, " already allocated"));
  take(log.allocated, size_after(line, "Of the allocated memory"));
  if (says(line, "is reserved by PyTorch but unallocated"))
    take(log.unallocated,
         size_before(line, " is reserved by PyTorch but unallocated"));
  const auto reserved = size_before(line, " reserved in total by PyTorch");
  if (reserved && log.allocated)
    log.unallocated = reserved->bytes - *log.allocated;
}

void tell(FailureKind kind, std::string_view line, FailureLog& log) {
  log.kind = kind;
  log.line = printable(line.substr(0, kShownLine));
  if (line.size() <= kShownLine) return;
  const std::size_t blank = line.rfind(' ', kShownLine);
  const std::size_t end = blank == std::string_view::npos ? kShownLine : blank;
  log.line = printable(line.substr(0, end)) + " ...";
}

void read_line(std::string_view line, FailureLog& log) {
  read_report(line, log);
  if (is_device_memory(line) || says(line, "Tried to allocate")) {
    tell(FailureKind::device_memory, line, log);
    read_allocation(line, log);
    return;
  }
  if (is_nccl_memory(line) && log.kind == FailureKind::none)
    tell(FailureKind::nccl, line, log);
  if (is_host_kill(line) && log.kind != FailureKind::device_memory)
    tell(FailureKind::host_memory, line, log);
  if (log.kind == FailureKind::device_memory && says(line, "capacity"))
    read_allocation(line, log);
  if (log.kind == FailureKind::none || !log.phase) read_frame(line, log);
}

}  // namespace

std::string_view to_text(FailureKind kind) {
  switch (kind) {
    case FailureKind::device_memory:
      return "device_oom";
    case FailureKind::host_memory:
      return "host_oom";
    case FailureKind::nccl:
      return "nccl";
    case FailureKind::none:
      break;
  }
  return "none";
}

FailureLog read_failure_log(std::string_view text) {
  FailureLog log;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    read_line(line, log);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return log;
}

}  // namespace ztplan
