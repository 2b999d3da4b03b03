#include "report/hardware_list.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json_writer.h"
#include "base/nearest.h"
#include "base/quantity_text.h"
#include "base/quote.h"
#include "base/table.h"
#include "report/number_text.h"
#include "report/render.h"
#include "spec/hardware_folder.h"

namespace ztplan {
namespace {

std::string rate_or_none(FlopsPerSecond rate) {
  constexpr double kTera = 1e12;
  return rate.value > 0 ? three_digits(rate.value / kTera) : "-";
}

std::string rate_or_none(BytesPerSecond rate) {
  return rate.value > 0 ? text(rate) : "-";
}

std::string text_or_none(Bytes bytes) {
  return bytes.value > 0 ? text(bytes) : "-";
}

const Level* network_of(const ClusterSpec& node) {
  const auto level =
      std::ranges::find(node.levels, LinkKind::network, &Level::kind);
  return level == node.levels.end() ? nullptr : &*level;
}

std::string links_of(const ClusterSpec& node) {
  std::string links;
  for (const Level& level : node.levels) {
    links += fmt::format("{}{} {}", links.empty() ? "" : ", ", level.name,
                         text(level.bandwidth));
  }
  return links;
}

// JSON.

void write_aliases(JsonWriter& json, const std::vector<std::string>& aliases) {
  json.key("aliases").begin_array();
  for (const std::string& alias : aliases) json.value(alias);
  json.end_array();
}

void write_device(JsonWriter& json, const DeviceSpec& d) {
  json.begin_object().field("id", d.id).field("name", d.name);
  write_aliases(json, d.aliases);
  json.field("architecture", d.architecture).field("memory_bytes", d.memory);
  json.field("memory_bytes_per_second", d.memory_bandwidth);
  json.field("fp32_flops_per_second", d.fp32);
  json.field("tf32_flops_per_second", d.tf32);
  json.field("fp16_flops_per_second", d.fp16);
  json.field("bf16_flops_per_second", d.bf16);
  json.field("fp8_flops_per_second", d.fp8);
  json.field("fp4_flops_per_second", d.fp4);
  json.field("matmul_achieved_flops_per_second", d.matmul_achieved);
  json.field("sm_count", d.sm_count).field("l2_bytes", d.l2);
  json.field("price_usd_per_hour", d.price_per_hour);
  json.field("trust", to_text(d.trust)).field("source", d.source).end_object();
}

void write_level(JsonWriter& json, const Level& level) {
  json.begin_object().field("name", level.name).field("fanout", level.fanout);
  json.field("bytes_per_second", level.bandwidth);
  json.field("achieved_share", level.achieved);
  json.field("latency_seconds", level.latency);
  json.field("in_network_reduction", level.in_network_reduction);
  json.field("trust", to_text(level.trust));
  json.field("source", level.source).end_object();
}

void write_node(JsonWriter& json, const ClusterSpec& node) {
  json.begin_object().field("id", node.name);
  write_aliases(json, node.aliases);
  json.field("device", node.device.id).field("gpus", node.devices);
  json.field("gpus_per_node", node.devices_per_node);
  json.field("host_memory_bytes", node.host.memory);
  json.field("nvme_bytes", node.host.nvme);
  json.field("nvme_read_bytes_per_second", node.host.nvme_read);
  json.field("host_link_bytes_per_second", node.host.device_link);
  json.field("price_usd_per_hour", node.price_per_node_hour);
  json.key("levels").begin_array();
  for (const Level& level : node.levels) write_level(json, level);
  json.end_array().field("source", node.source).end_object();
}

void write_network(JsonWriter& json, const NetworkSpec& network) {
  json.begin_object().field("id", network.id).field("name", network.name);
  write_aliases(json, network.aliases);
  json.field("bytes_per_second", network.level.bandwidth);
  json.field("achieved_share", network.level.achieved);
  json.field("latency_seconds", network.level.latency);
  json.field("trust", to_text(network.level.trust));
  json.field("source", network.source).end_object();
}

void write_framework(JsonWriter& json, const Framework& framework) {
  json.begin_object().field("id", framework.id);
  write_aliases(json, framework.aliases);
  json.field("engine", framework.engine);
  json.field("default", framework.is_default);
  json.key("facts").begin_object();
  for (const FrameworkFact& fact : facts(framework))
    json.field(std::string(fact.name).c_str(), fact.value);
  json.end_object().field("source", framework.source).end_object();
}

std::string hardware_json(const Hardware& hardware) {
  JsonWriter json(JsonWriter::Layout::indented);
  json.begin_object().field("schema", "ztplan.hardware/1");
  json.key("devices").begin_array();
  for (const DeviceSpec& device : hardware.devices) write_device(json, device);
  json.end_array().key("nodes").begin_array();
  for (const ClusterSpec& node : hardware.nodes) write_node(json, node);
  json.end_array().key("networks").begin_array();
  for (const NetworkSpec& network : hardware.networks) {
    write_network(json, network);
  }
  json.end_array().key("clusters").begin_array();
  for (const ClusterSpec& cluster : hardware.clusters) {
    write_node(json, cluster);
  }
  json.end_array().key("frameworks").begin_array();
  for (const Framework& framework : hardware.frameworks) {
    write_framework(json, framework);
  }
  json.end_array().end_object();
  return json.take();
}

// Tables.

Table device_table(const std::vector<DeviceSpec>& devices) {
  Table table{{{"device"},
               {"memory", Align::right},
               {"bandwidth", Align::right},
               {"bf16", Align::right},
               {"fp16", Align::right},
               {"fp8", Align::right},
               {"architecture"},
               {"trust"}},
              {}};
  for (const DeviceSpec& d : devices) {
    table.rows.push_back(
        {d.id, text(d.memory), rate_or_none(d.memory_bandwidth),
         rate_or_none(d.bf16), rate_or_none(d.fp16), rate_or_none(d.fp8),
         d.architecture, std::string(to_text(d.trust))});
  }
  return table;
}

Table node_table(const char* title, const std::vector<ClusterSpec>& nodes) {
  Table table{{{title},
               {"device"},
               {"GPUs", Align::right},
               {"host memory", Align::right},
               {"links of a GPU, one direction"}},
              {}};
  for (const ClusterSpec& node : nodes) {
    table.rows.push_back({node.name, node.device.id,
                          fmt::format("{}", node.devices),
                          text_or_none(node.host.memory), links_of(node)});
  }
  return table;
}

Table network_table(const std::vector<NetworkSpec>& networks) {
  Table table{{{"network"},
               {"rate", Align::right},
               {"reached", Align::right},
               {"name"},
               {"trust"}},
              {}};
  for (const NetworkSpec& network : networks) {
    table.rows.push_back({network.id, text(network.level.bandwidth),
                          share_text(network.level.achieved), network.name,
                          std::string(to_text(network.level.trust))});
  }
  return table;
}

Table framework_table(const std::vector<Framework>& frameworks) {
  Table table{{{"version"}, {"engine"}, {"default"}, {"what"}}, {}};
  for (const Framework& framework : frameworks) {
    table.rows.push_back({framework.id, framework.engine,
                          framework.is_default ? "yes" : "", framework.source});
  }
  return table;
}

// Every entry in the same columns, for programs that read CSV.
Table hardware_csv(const Hardware& hardware) {
  Table table{{{"kind"},
               {"id"},
               {"device"},
               {"memory_bytes"},
               {"bytes_per_second"},
               {"bf16_flops_per_second"},
               {"gpus_per_node"},
               {"source"}},
              {}};
  for (const DeviceSpec& d : hardware.devices) {
    table.rows.push_back({"device", d.id, d.id,
                          fmt::format("{}", d.memory.value),
                          fmt::format("{}", d.memory_bandwidth.value),
                          fmt::format("{}", d.bf16.value), "", d.source});
  }
  const auto add_machine = [&table](const char* kind, const ClusterSpec& node) {
    const Level* network = network_of(node);
    table.rows.push_back(
        {kind, node.name, node.device.id,
         fmt::format("{}", node.host.memory.value),
         network == nullptr ? "" : fmt::format("{}", network->bandwidth.value),
         "", fmt::format("{}", node.devices_per_node), node.source});
  };
  for (const auto& node : hardware.nodes) add_machine("node", node);
  for (const auto& cluster : hardware.clusters) add_machine("cluster", cluster);
  for (const NetworkSpec& network : hardware.networks) {
    table.rows.push_back({"network", network.id, "", "",
                          fmt::format("{}", network.level.bandwidth.value), "",
                          "", network.source});
  }
  for (const Framework& framework : hardware.frameworks) {
    table.rows.push_back(
        {"framework", framework.id, "", "", "", "", "", framework.source});
  }
  return table;
}

Table facts(const DeviceSpec& d) {
  Table table{{{"device"}, {d.id}}, {}};
  const auto add = [&table](std::string name, std::string value) {
    table.rows.push_back({std::move(name), std::move(value)});
  };
  add("name", d.name);
  add("architecture", d.architecture);
  add("memory", fmt::format("{} as the framework reports", text(d.memory)));
  add("memory bandwidth", rate_or_none(d.memory_bandwidth));
  for (const auto& [name, rate] :
       {std::pair{"fp32", d.fp32}, std::pair{"tf32", d.tf32},
        std::pair{"fp16", d.fp16}, std::pair{"bf16", d.bf16},
        std::pair{"fp8", d.fp8}, std::pair{"fp4", d.fp4}}) {
    if (rate.value > 0) add(name, text(rate) + " dense");
  }
  if (d.matmul_achieved.value > 0) {
    add("best bf16 product", text(d.matmul_achieved));
  }
  if (d.price_per_hour > 0) {
    add("price", fmt::format("about {} USD an hour", d.price_per_hour));
  }
  add("trust", std::string(to_text(d.trust)));
  add("source", d.source);
  return table;
}

Table facts(const ClusterSpec& node) {
  Table table{{{"machine"}, {node.name}}, {}};
  const auto add = [&table](std::string name, std::string value) {
    table.rows.push_back({std::move(name), std::move(value)});
  };
  add("device", fmt::format("{} x {}, {} a node", node.devices, node.device.id,
                            node.devices_per_node));
  for (const Level& level : node.levels) {
    add("link " + level.name,
        fmt::format("{} a GPU and direction, {} of it reached ({})",
                    text(level.bandwidth), share_text(level.achieved),
                    to_text(level.trust)));
  }
  add("host memory", text_or_none(node.host.memory));
  add("host link", rate_or_none(node.host.device_link));
  add("nvme", text_or_none(node.host.nvme));
  add("nvme read", rate_or_none(node.host.nvme_read));
  add("source", node.source);
  return table;
}

Table facts(const NetworkSpec& network) {
  Table table{{{"network"}, {network.id}}, {}};
  table.rows.push_back({"name", network.name});
  table.rows.push_back({"rate", text(network.level.bandwidth)});
  table.rows.push_back({"reached", share_text(network.level.achieved)});
  table.rows.push_back({"latency added", text(network.level.latency)});
  table.rows.push_back({"trust", std::string(to_text(network.level.trust))});
  table.rows.push_back({"source", network.source});
  return table;
}

Table facts_table(const Framework& framework) {
  Table table{{{"version"}, {framework.id}}, {}};
  table.rows.push_back({"engine", framework.engine});
  for (const FrameworkFact& fact : facts(framework)) {
    const char* word = fact.value ? "yes" : "no";
    table.rows.push_back(
        {std::string(fact.name), fact.value == fact.usual
                                     ? word
                                     : fmt::format("{}, unlike most", word)});
  }
  table.rows.push_back({"source", framework.source});
  return table;
}

std::size_t count(const Hardware& hardware) {
  return hardware.devices.size() + hardware.nodes.size() +
         hardware.clusters.size() + hardware.networks.size() +
         hardware.frameworks.size();
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) {
    out += (out.empty() ? "" : "\n") + part;
  }
  return out;
}

}  // namespace

std::string render_hardware(const Hardware& hardware, Format format) {
  if (format == Format::json) return hardware_json(hardware);
  if (format == Format::csv) return render_csv(hardware_csv(hardware));
  return joined({render(device_table(hardware.devices), format),
                 render(node_table("node", hardware.nodes), format),
                 render(node_table("cluster", hardware.clusters), format),
                 render(network_table(hardware.networks), format),
                 render(framework_table(hardware.frameworks), format)});
}

Hardware find_hardware(const Hardware& hardware, std::string_view name) {
  Hardware found;
  std::vector<std::string> names;
  const auto look = [&](const auto& entries, auto& into, const auto& id_of) {
    for (const auto& entry : entries) {
      std::vector<std::string> all = entry.aliases;
      all.push_back(id_of(entry));
      if (std::ranges::find(all, fold_name(name)) != all.end()) {
        into.push_back(entry);
      }
      names.insert(names.end(), all.begin(), all.end());
    }
  };
  const auto name_of = [](const ClusterSpec& c) { return c.name; };
  look(hardware.devices, found.devices, [](const auto& d) { return d.id; });
  look(hardware.nodes, found.nodes, name_of);
  look(hardware.clusters, found.clusters, name_of);
  look(hardware.networks, found.networks, [](const auto& n) { return n.id; });
  look(hardware.frameworks, found.frameworks,
       [](const auto& f) { return f.id; });
  if (count(found) > 0) return found;
  const std::string close = nearest_name(name, names);
  throw Error(fmt::format("there is no machine {}", quote(name)),
              close.empty() ? "ztplan hardware lists them"
                            : fmt::format("did you mean {}?", close));
}

std::string render_hardware_facts(const Hardware& hardware, Format format) {
  if (format == Format::json) return hardware_json(hardware);
  if (format == Format::csv) return render_csv(hardware_csv(hardware));
  std::vector<std::string> parts;
  for (const auto& d : hardware.devices) {
    parts.push_back(render(facts(d), format));
  }
  for (const auto& n : hardware.nodes) {
    parts.push_back(render(facts(n), format));
  }
  for (const auto& c : hardware.clusters) {
    parts.push_back(render(facts(c), format));
  }
  for (const auto& n : hardware.networks) {
    parts.push_back(render(facts(n), format));
  }
  for (const auto& f : hardware.frameworks) {
    parts.push_back(render(facts_table(f), format));
  }
  return joined(parts);
}

}  // namespace ztplan
