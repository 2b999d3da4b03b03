#include "spec/hardware_file.h"

#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/quantity_text.h"

namespace ztplan {
namespace {

/// Bounds that no real file reaches: past them a number is a slip.
constexpr int kMostCount = 1'000'000;
constexpr double kMostPrice = 1e6;  // USD per hour
constexpr double kLeastShare = 0.001;

/// `parse` of the text at `key`, its error told with file and path.
template <class Value>
Value quantity(const JsonView& object, std::string_view key,
               Value (*parse)(std::string_view)) {
  const JsonView value = object.at(key);
  const std::string text = value.string();
  try {
    return parse(text);
  } catch (const Error& error) {
    value.fail(error.what(), error.hint());
  }
}

template <class Value>
Value quantity_or_none(const JsonView& object, std::string_view key,
                       Value (*parse)(std::string_view)) {
  return object.has(key) ? quantity(object, key, parse) : Value{};
}

template <class Value>
std::optional<Value> optional_quantity(const JsonView& object,
                                       std::string_view key,
                                       Value (*parse)(std::string_view)) {
  if (!object.has(key)) return std::nullopt;
  return quantity(object, key, parse);
}

int count_or(const JsonView& object, std::string_view key, int fallback) {
  if (!object.has(key)) return fallback;
  return object.at(key).small_integer(1, kMostCount);
}

std::string required_text(const JsonView& object, std::string_view key) {
  const JsonView value = object.at(key);
  std::string text = value.string();
  if (text.empty()) value.fail("must not be empty");
  return text;
}

/// What a link achieves of its rate.
double share(const JsonView& value) {
  const double number = value.number();
  if (number < kLeastShare || number > 1) {
    value.fail("must be from 0.001 to 1");
  }
  return number;
}

std::vector<std::string> read_names(const JsonView& object,
                                    std::string_view key) {
  std::vector<std::string> names;
  if (!object.has(key)) return names;
  const JsonView list = object.at(key);
  if (!list.is_array()) list.fail("expected a list of names");
  for (std::size_t i = 0; i < list.size(); ++i) {
    names.push_back(list[i].string());
  }
  return names;
}

/// The middle of a rough range [low, high]; 0 when there is none.
double read_price(const JsonView& object, std::string_view key) {
  if (!object.has(key)) return 0;
  const JsonView range = object.at(key);
  if (!range.is_array() || range.size() != 2) {
    range.fail("expected [low, high] in USD per hour");
  }
  const double low = range[0].number();
  const double high = range[1].number();
  if (low < 0 || high < low || high > kMostPrice) {
    range.fail("expected [low, high] in USD per hour, 0 <= low <= high");
  }
  return (low + high) / 2;
}

template <class Enum, std::size_t size>
Enum read_word(const JsonView& word, const std::array<Enum, size>& known) {
  const std::string text = word.string();
  std::string words;
  for (const Enum value : known) {
    if (text == to_text(value)) return value;
    words += (words.empty() ? "" : ", ") + std::string(to_text(value));
  }
  word.fail("unknown word \"" + text + "\"", "one of " + words);
}

LinkKind read_kind(const JsonView& word) {
  return read_word(word,
                   std::array{LinkKind::nvlink, LinkKind::xgmi, LinkKind::pcie,
                              LinkKind::network, LinkKind::memory});
}

Trust trust_or(const JsonView& object, Trust fallback) {
  return object.has("trust") ? parse_trust(object.at("trust")) : fallback;
}

void read_memory(const JsonView& memory, DeviceSpec& device) {
  memory.allow_only({"nominal", "kind", "driver", "usable", "bandwidth"});
  const JsonView usable = memory.at("usable");
  device.memory = quantity(memory, "usable", parse_bytes);
  const Bytes driver = quantity_or_none(memory, "driver", parse_bytes);
  if (driver.value > 0 && device.memory > driver) {
    usable.fail("more than the driver shows");
  }
  quantity(memory, "nominal", parse_bytes);
  required_text(memory, "kind");
  device.memory_bandwidth = quantity(memory, "bandwidth", parse_rate);
}

void read_peaks(const JsonView& peak, DeviceSpec& device) {
  peak.allow_only({"fp32", "tf32", "fp16", "bf16", "fp8", "fp4"});
  device.fp32 = quantity(peak, "fp32", parse_flops_rate);
  device.tf32 = quantity_or_none(peak, "tf32", parse_flops_rate);
  device.fp16 = quantity_or_none(peak, "fp16", parse_flops_rate);
  device.bf16 = quantity_or_none(peak, "bf16", parse_flops_rate);
  device.fp8 = quantity_or_none(peak, "fp8", parse_flops_rate);
  device.fp4 = quantity_or_none(peak, "fp4", parse_flops_rate);
}

void read_links(const JsonView& file, DeviceFile& out) {
  if (file.has("scale_up")) {
    const JsonView scale_up = file.at("scale_up");
    scale_up.allow_only({"link", "bandwidth", "links"});
    required_text(scale_up, "link");
    out.scale_up = quantity(scale_up, "bandwidth", parse_rate);
    if (scale_up.has("links")) {
      out.scale_up_links = scale_up.at("links").small_integer(0, kMostCount);
    }
  }
  if (!file.has("pcie")) return;
  const JsonView pcie = file.at("pcie");
  pcie.allow_only({"generation", "lanes", "bandwidth"});
  count_or(pcie, "generation", 1);
  count_or(pcie, "lanes", 1);
  out.pcie = quantity(pcie, "bandwidth", parse_rate);
}

LevelFile read_level(const JsonView& level) {
  level.allow_only({"name", "link", "kind", "fanout", "bandwidth",
                    "nics_per_node", "nic_rate", "achieved", "latency",
                    "in_network_reduction", "trust", "source"});
  LevelFile out;
  out.name = required_text(level, "name");
  out.link = level.string_or("link", "");
  if (level.has("kind")) out.kind = read_kind(level.at("kind"));
  out.fanout = count_or(level, "fanout", 0);
  out.bandwidth = optional_quantity(level, "bandwidth", parse_rate);
  out.nics_per_node = count_or(level, "nics_per_node", 0);
  out.nic_rate = optional_quantity(level, "nic_rate", parse_rate);
  if (level.has("achieved")) out.achieved = share(level.at("achieved"));
  out.latency = optional_quantity(level, "latency", parse_seconds);
  out.in_network_reduction = level.boolean_or("in_network_reduction", false);
  if (level.has("trust")) out.trust = parse_trust(level.at("trust"));
  out.source = level.string_or("source", "");
  const bool rated = out.bandwidth || (out.nics_per_node > 0 && out.nic_rate);
  if (out.link.empty() && (!out.kind || !rated)) {
    level.fail("says neither which link it is nor its kind and bandwidth",
               R"(give "link", or "kind" and "bandwidth")");
  }
  return out;
}

/// The last of `levels` has a name of its own.
void refuse_second(const std::vector<LevelFile>& levels, const JsonView& last) {
  for (std::size_t i = 0; i + 1 < levels.size(); ++i) {
    if (levels[i].name != levels.back().name) continue;
    last.at("name").fail("an inner level has this name");
  }
}

std::vector<LevelFile> read_levels(const JsonView& file) {
  std::vector<LevelFile> levels;
  if (!file.has("levels")) return levels;
  const JsonView list = file.at("levels");
  if (!list.is_array() || list.size() == 0 || list.size() > kMostLevels) {
    list.fail("expected a list of 1 to " + std::to_string(kMostLevels) +
              " levels, innermost first");
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    levels.push_back(read_level(list[i]));
    refuse_second(levels, list[i]);
    if (i + 1 < list.size() && levels[i].fanout == 0) {
      list[i].fail("only the last level may have no fanout");
    }
  }
  return levels;
}

StorageFile read_storage(const JsonView& nvme) {
  nvme.allow_only({"size", "drives", "drive", "read", "write", "source"});
  StorageFile out;
  out.size = quantity(nvme, "size", parse_bytes);
  out.drive = nvme.string_or("drive", "");
  out.drives = count_or(nvme, "drives", 1);
  out.source = nvme.string_or("source", "");
  if (!out.drive.empty()) return out;
  out.read = quantity(nvme, "read", parse_rate);
  out.write = quantity(nvme, "write", parse_rate);
  return out;
}

HostLinkFile read_host_link(const JsonView& link) {
  link.allow_only({"link", "shared_by", "rate", "source"});
  HostLinkFile out;
  out.link = link.string_or("link", "");
  out.shared_by = count_or(link, "shared_by", 1);
  if (out.link.empty()) out.rate = quantity(link, "rate", parse_rate);
  out.source = link.string_or("source", "");
  return out;
}

HostFile read_host(const JsonView& host) {
  host.allow_only({"cpu", "cores", "memory", "memory_bandwidth",
                   "memory_bandwidth_source", "rates_trust", "nvme",
                   "device_link"});
  HostFile out;
  host.string_or("cpu", "");
  out.cores = count_or(host, "cores", 0);
  out.memory = quantity(host, "memory", parse_bytes);
  out.memory_bandwidth = quantity(host, "memory_bandwidth", parse_rate);
  out.memory_bandwidth_source = host.string_or("memory_bandwidth_source", "");
  if (host.has("nvme")) out.nvme = read_storage(host.at("nvme"));
  out.device_link = read_host_link(host.at("device_link"));
  if (host.has("rates_trust")) {
    out.rates_trust = parse_trust(host.at("rates_trust"));
  }
  return out;
}

void read_device_name(const JsonView& file, MachineFile& out) {
  if (!file.has("device")) return;
  const JsonView device = file.at("device");
  if (device.is_object()) {
    out.own_device = parse_device(device);
  } else {
    out.device = required_text(file, "device");
  }
}

/// What a machine must say when there is no other to take it from.
void require_whole(const JsonView& file, const MachineFile& machine) {
  if (!machine.like.empty()) return;
  for (const char* key : {"device", "devices_per_node", "levels", "host"}) {
    if (file.has(key)) continue;
    file.fail("key \"" + std::string(key) + "\" is missing");
  }
}

}  // namespace

Trust parse_trust(const JsonView& word) {
  return read_word(word,
                   std::array{Trust::measured, Trust::given, Trust::stored,
                              Trust::cross, Trust::quoted, Trust::assumed});
}

DeviceFile parse_device(const JsonView& file) {
  file.allow_only({"id",
                   "name",
                   "aliases",
                   "vendor",
                   "architecture",
                   "compute_capability",
                   "form",
                   "year",
                   "memory",
                   "peak",
                   "matmul_achieved",
                   "sm_count",
                   "l2",
                   "scale_up",
                   "pcie",
                   "power_watts",
                   "price_usd_per_hour",
                   "usual_node",
                   "trust",
                   "source",
                   "notes"});
  DeviceFile out;
  DeviceSpec& device = out.device;
  device.id = required_text(file, "id");
  device.name = file.string_or("name", device.id);
  device.aliases = read_names(file, "aliases");
  device.architecture = required_text(file, "architecture");
  read_memory(file.at("memory"), device);
  read_peaks(file.at("peak"), device);
  device.matmul_achieved =
      quantity_or_none(file, "matmul_achieved", parse_flops_rate);
  device.sm_count = count_or(file, "sm_count", 0);
  device.l2 = quantity_or_none(file, "l2", parse_bytes);
  device.price_per_hour = read_price(file, "price_usd_per_hour");
  device.trust = trust_or(file, Trust::given);
  device.source = required_text(file, "source");
  read_links(file, out);
  out.usual_node = file.string_or("usual_node", "");
  return out;
}

NetworkSpec parse_network(const JsonView& file) {
  file.allow_only({"id", "name", "aliases", "kind", "technology", "bandwidth",
                   "port_rate", "write_bandwidth", "achieved",
                   "half_round_trip", "step_latency", "transport_latency",
                   "half_peak_message", "rdma", "gpudirect",
                   "in_network_reduction", "trust", "source", "notes"});
  NetworkSpec out;
  out.id = required_text(file, "id");
  out.name = file.string_or("name", out.id);
  out.aliases = read_names(file, "aliases");
  out.technology = required_text(file, "technology");
  out.source = required_text(file, "source");
  Level& level = out.level;
  level.name = out.id;
  level.kind = read_kind(file.at("kind"));
  level.bandwidth = quantity(file, "bandwidth", parse_rate);
  level.achieved = share(file.at("achieved"));
  level.latency = quantity_or_none(file, "transport_latency", parse_seconds);
  // "SHARP" of a fabric is another algorithm (CollNet), which is not priced.
  level.in_network_reduction =
      file.string_or("in_network_reduction", "") == "NVLS";
  level.trust = trust_or(file, Trust::given);
  level.source = out.source;
  out.write_bandwidth = file.has("write_bandwidth")
                            ? quantity(file, "write_bandwidth", parse_rate)
                            : level.bandwidth;
  quantity_or_none(file, "port_rate", parse_rate);
  quantity_or_none(file, "half_round_trip", parse_seconds);
  quantity_or_none(file, "step_latency", parse_seconds);
  quantity_or_none(file, "half_peak_message", parse_bytes);
  return out;
}

MachineFile parse_machine(const JsonView& file) {
  file.allow_only({"id", "name", "aliases", "provider", "like", "device",
                   "devices_per_node", "devices_share_host", "topology",
                   "levels", "host", "price_usd_per_node_hour", "trust",
                   "source", "notes"});
  MachineFile out;
  out.id = required_text(file, "id");
  out.aliases = read_names(file, "aliases");
  out.like = file.string_or("like", "");
  read_device_name(file, out);
  out.devices_per_node = count_or(file, "devices_per_node", 0);
  if (file.has("devices_share_host")) {
    out.devices_share_host = file.at("devices_share_host").boolean();
  }
  out.levels = read_levels(file);
  if (file.has("host")) out.host = read_host(file.at("host"));
  if (file.has("price_usd_per_node_hour")) {
    out.price_per_node_hour = read_price(file, "price_usd_per_node_hour");
  }
  out.trust = trust_or(file, Trust::given);
  out.source = file.string_or("source", "given");
  require_whole(file, out);
  return out;
}

}  // namespace ztplan
