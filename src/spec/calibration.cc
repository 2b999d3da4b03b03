#include "spec/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/json.h"
#include "base/quantity_text.h"
#include "spec/catalog.h"
#include "spec/inputs.h"
#include "spec/measured.h"

namespace ztplan {
namespace {

enum class Unit { none, seconds, bytes };
enum class Faster { high, low };  // the end of the band that saves time

struct Field {
  const char* name;
  Constant Calibration::*constant;
  Unit unit;
  Faster faster;
  Input input;
};

using C = Calibration;
constexpr std::array kFields{
    Field{"matmul_share", &C::matmul_share, Unit::none, Faster::high,
          Input::products},
    Field{"matmul_burst", &C::matmul_burst, Unit::none, Faster::high,
          Input::products},
    Field{"matmul_loaded", &C::matmul_loaded, Unit::none, Faster::high,
          Input::products},
    Field{"matmul_k_fill", &C::matmul_k_fill, Unit::none, Faster::low,
          Input::products},
    Field{"matmul_start", &C::matmul_start, Unit::seconds, Faster::low,
          Input::products},
    Field{"unaligned_share", &C::unaligned_share, Unit::none, Faster::high,
          Input::products},
    Field{"fp8_share", &C::fp8_share, Unit::none, Faster::high,
          Input::products},
    Field{"fp4_share", &C::fp4_share, Unit::none, Faster::high,
          Input::products},
    Field{"memory_share", &C::memory_share, Unit::none, Faster::high,
          Input::passes},
    Field{"stream_start", &C::stream_start, Unit::seconds, Faster::low,
          Input::passes},
    Field{"flash_share", &C::flash_share, Unit::none, Faster::high,
          Input::attention},
    Field{"flash_half_sequence", &C::flash_half_sequence, Unit::none,
          Faster::low, Input::attention},
    Field{"flash_backward_share", &C::flash_backward_share, Unit::none,
          Faster::high, Input::attention},
    Field{"pass_factor", &C::pass_factor, Unit::none, Faster::low,
          Input::passes},
    Field{"loss_factor", &C::loss_factor, Unit::none, Faster::low,
          Input::passes},
    Field{"gradient_factor", &C::gradient_factor, Unit::none, Faster::low,
          Input::passes},
    Field{"kernel_start", &C::kernel_start, Unit::seconds, Faster::low,
          Input::launches},
    Field{"collective_start", &C::collective_start, Unit::seconds, Faster::low,
          Input::launches},
    Field{"gather_interference", &C::gather_interference, Unit::none,
          Faster::low, Input::overlap},
    Field{"ring_latency_factor", &C::ring_latency_factor, Unit::none,
          Faster::low, Input::links},
    Field{"ring_bandwidth_factor", &C::ring_bandwidth_factor, Unit::none,
          Faster::high, Input::links},
    Field{"all_to_all_start", &C::all_to_all_start, Unit::seconds, Faster::low,
          Input::links},
    Field{"network_share", &C::network_share, Unit::none, Faster::high,
          Input::network},
    Field{"host_adam_bytes", &C::host_adam_bytes, Unit::bytes, Faster::low,
          Input::host},
    Field{"host_memory_share", &C::host_memory_share, Unit::none, Faster::high,
          Input::host},
    Field{"transfer_share", &C::transfer_share, Unit::none, Faster::high,
          Input::host},
    Field{"nvme_share", &C::nvme_share, Unit::none, Faster::high, Input::host},
};

double number_of(const JsonView& view, Unit unit) {
  switch (unit) {
    case Unit::none:
      return view.number();
    case Unit::seconds:
      return parse_seconds(view.string()).value;
    case Unit::bytes:
      return static_cast<double>(parse_bytes(view.string()).value);
  }
  return 0;
}

Trust trust_of(const JsonView& view) {
  constexpr std::array<std::pair<std::string_view, Trust>, 6> kNames{
      {{"measured", Trust::measured},
       {"given", Trust::given},
       {"stored", Trust::stored},
       {"cross", Trust::cross},
       {"quoted", Trust::quoted},
       {"assumed", Trust::assumed}}};
  const std::string text = view.string();
  for (const auto& [name, trust] : kNames)
    if (text == name) return trust;
  view.fail("expected measured, given, stored, cross, quoted or assumed");
}

Constant read_constant(const JsonView& view, Unit unit) {
  view.allow_only({"value", "low", "high", "trust", "source"});
  Constant constant{.value = number_of(view.at("value"), unit),
                    .low = number_of(view.at("low"), unit),
                    .high = number_of(view.at("high"), unit),
                    .trust = trust_of(view.at("trust")),
                    .source = view.at("source").string()};
  if (constant.low <= 0 || constant.low > constant.value ||
      constant.value > constant.high)
    view.fail("expected 0 < low <= value <= high");
  return constant;
}

const Field& find_field(const JsonView& view, const std::string& name) {
  for (const Field& field : kFields)
    if (name == field.name) return field;
  view.fail(fmt::format("no constant of a calibration is called '{}'", name));
}

/// Sets the constants that `view` has, and no others.
void overlay(Calibration& calibration, const JsonView& view) {
  for (const std::string& name : view.keys()) {
    const Field& field = find_field(view, name);
    calibration.*field.constant = read_constant(view.at(name), field.unit);
  }
}

bool overlay_entry(Calibration& calibration, const JsonView& entries,
                   const std::string& key) {
  if (key.empty() || !entries.has(key)) return false;
  overlay(calibration, entries.at(key));
  return true;
}

// Long products sustain this share of the best product found by search: A100
// .79 of .87, H100 .73 of .80, H200 .68 of .80, B200 .67 of .78, GB200 .64 of
// .73 (ai-dynamo/aiconfigurator, systems/data/*/gemm, against stas00/
// ml-engineering, compute/accelerator, maximum achievable matmul).
constexpr double kSustainedOfBest = 0.88;
constexpr double kSustainedBand = 0.06;  // spread of those ratios, and age

Constant share_from_best(const DeviceSpec& device) {
  const double share =
      kSustainedOfBest * (device.matmul_achieved / device.bf16);
  return {.value = share,
          .low = share * (1 - kSustainedBand),
          .high = share * (1 + kSustainedBand),
          .trust = device.trust,
          .source = fmt::format("0.88 of the best product of {}", device.id)};
}

void require_all(const Calibration& calibration, const JsonView& view) {
  for (const Field& field : kFields)
    if ((calibration.*field.constant).value <= 0)
      view.fail(fmt::format("default lacks '{}'", field.name));
}

Calibration all_moved(Calibration calibration, End end) {
  for (int i = 0; i < kInputs; ++i)
    calibration = moved(std::move(calibration), static_cast<Input>(i), end);
  return calibration;
}

}  // namespace

Calibration moved(Calibration calibration, Input input, End end) {
  for (const Field& field : kFields) {
    if (field.input != input) continue;
    Constant& constant = calibration.*field.constant;
    const bool to_high = (field.faster == Faster::high) == (end == End::fast);
    constant.value = to_high ? constant.high : constant.low;
  }
  calibration.band.at(static_cast<std::size_t>(input)) =
      end == End::fast ? -1 : 1;
  return calibration;
}

Calibration optimistic(const Calibration& calibration) {
  return all_moved(calibration, End::fast);
}

Calibration pessimistic(const Calibration& calibration) {
  return all_moved(calibration, End::slow);
}

Calibration slowed(Calibration calibration, double speed) {
  for (Constant Calibration::*share :
       {&Calibration::matmul_share, &Calibration::flash_share,
        &Calibration::memory_share}) {
    Constant& constant = calibration.*share;
    constant.value *= speed;
    constant.low *= speed;
    constant.high *= speed;
  }
  calibration.measured_speed *= speed;
  return calibration;
}

bool shares_cores(const Calibration& calibration) {
  return calibration.measured && !calibration.measured->sharing.empty();
}

Calibration with_measured(Calibration calibration,
                          std::shared_ptr<const MeasuredMachine> machine) {
  calibration.measured = std::move(machine);
  if (!shares_cores(calibration)) return calibration;
  const auto set = [&](Constant& constant, double value) {
    constant = {value, value, value, Trust::measured, "threads of one machine"};
  };
  set(calibration.kernel_start, 0);
  set(calibration.collective_start, 0);
  set(calibration.gather_interference, 1);
  return calibration;
}

void overlay_framework(Calibration& calibration, const DeviceSpec& device,
                       const JsonView& framework) {
  if (framework.has("constants"))
    overlay(calibration, framework.at("constants"));
  if (framework.has("architectures"))
    overlay_entry(calibration, framework.at("architectures"),
                  device.architecture);
}

Calibration published_calibration(const DeviceSpec& device) {
  const JsonView file = JsonView::load(data_directory() +
                                       "/hardware/calibrations/published.json");
  file.allow_only({"source", "default", "architectures", "devices"});
  Calibration calibration;
  calibration.name = "published";
  overlay(calibration, file.at("default"));
  overlay_entry(calibration, file.at("architectures"), device.architecture);
  if (device.matmul_achieved.value > 0 && device.bf16.value > 0)
    calibration.matmul_share = share_from_best(device);
  overlay_entry(calibration, file.at("devices"), device.id);
  require_all(calibration, file);
  return calibration;
}

}  // namespace ztplan
