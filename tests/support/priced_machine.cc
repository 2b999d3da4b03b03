#include "support/priced_machine.h"

#include <array>

#include "base/error.h"

namespace ztplan {
namespace {

struct Sheet {
  std::string_view gpu, id, architecture;
  double bf16, fp16, fp8, fp32;  // TFLOPS, dense
  double memory;                 // GB/s
  int multiprocessors, devices;
  LinkKind link;
  double rate;  // GB/s per device and direction
  bool in_network_reduction;
};

constexpr auto kNvlink = LinkKind::nvlink;
constexpr std::array kSheets{
    Sheet{"v100", "v100-sxm2-32gb", "Volta", 0, 125, 0, 15.7, 900, 80, 8,
          kNvlink, 150, false},
    Sheet{"a100", "a100-sxm4-80gb", "Ampere", 312, 312, 0, 19.5, 2039, 108, 8,
          kNvlink, 300, false},
    Sheet{"h100", "h100-sxm-80gb", "Hopper", 989.4, 989.4, 1978.9, 67, 3350,
          132, 8, kNvlink, 450, true},
    Sheet{"h200", "h200-sxm-141gb", "Hopper", 989.4, 989.4, 1978.9, 67, 4800,
          132, 8, kNvlink, 450, true},
    Sheet{"b200", "b200-sxm-180gb", "Blackwell", 2250, 2250, 4500, 75, 7700,
          148, 8, kNvlink, 900, true},
    Sheet{"b300", "b300-sxm-270gb", "Blackwell Ultra", 2250, 2250, 4500, 75,
          7750, 148, 8, kNvlink, 900, true},
    Sheet{"gb200", "gb200", "Blackwell", 2500, 2500, 5000, 80, 8000, 152, 4,
          kNvlink, 900, true},
    Sheet{"gb300", "gb300", "Blackwell Ultra", 2500, 2500, 5000, 80, 8000, 152,
          4, kNvlink, 900, true},
    Sheet{"l40s", "l40s-48gb", "Ada", 362, 362, 733, 91.6, 864, 142, 8,
          LinkKind::pcie, 31.5, false},
};

constexpr double kTera = 1e12, kGiga = 1e9;

const Sheet& find_sheet(std::string_view gpu) {
  for (const Sheet& sheet : kSheets)
    if (sheet.gpu == gpu) return sheet;
  throw Error("no data sheet of this GPU in tests/support/priced_machine.cc");
}

DeviceSpec device_of(const Sheet& sheet) {
  DeviceSpec device;
  device.id = sheet.id;
  device.architecture = sheet.architecture;
  device.fp32 = {sheet.fp32 * kTera};
  device.fp16 = {sheet.fp16 * kTera};
  device.bf16 = {sheet.bf16 * kTera};
  device.fp8 = {sheet.fp8 * kTera};
  device.memory_bandwidth = {sheet.memory * kGiga};
  device.sm_count = sheet.multiprocessors;
  return device;
}

Level local_level(const Sheet& sheet) {
  Level level;
  level.name = "node";
  level.kind = sheet.link;
  level.fanout = sheet.devices;
  level.bandwidth = {sheet.rate * kGiga};
  level.in_network_reduction = sheet.in_network_reduction;
  return level;
}

}  // namespace

PricedMachine node_of(std::string_view gpu) {
  const Sheet& sheet = find_sheet(gpu);
  PricedMachine made;
  made.cluster.device = device_of(sheet);
  made.cluster.levels = {local_level(sheet)};
  made.cluster.devices = made.cluster.devices_per_node = sheet.devices;
  made.calibration = published_calibration(made.cluster.device);
  return made;
}

PricedMachine nodes_of(std::string_view gpu, int nodes, BytesPerSecond nic) {
  PricedMachine made = node_of(gpu);
  Level network;
  network.name = "network";
  network.kind = LinkKind::network;
  network.fanout = nodes;
  network.bandwidth = nic;
  made.cluster.levels.push_back(network);
  made.cluster.devices *= nodes;
  return made;
}

}  // namespace ztplan
