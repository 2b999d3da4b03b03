// Every value of a sound file replaced by every kind of junk: it is accepted
// or refused as the user's error, never a crash or a fault of ours.
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "spec/blueprint.h"
#include "spec/hardware_file.h"

using namespace ztplan;
using nlohmann::json;

namespace {

json sound(const std::string& path) {
  std::ifstream file(std::string(ZTPLAN_SOURCE_DIR) + "/hardware/" + path);
  return json::parse(file);
}

std::vector<json> junk() {
  return {nullptr,
          true,
          -1,
          0,
          1e300,
          1000000000,
          "",
          "x",
          "0GB/s",
          "-1GiB",
          "1GB/s",
          std::string("\0\xff", 2),
          json::array(),
          json::object(),
          json::array({1, 2}),
          json{{"a", 1}}};
}

/// Calls `visit` with `whole` while each of its values, inner ones too, is
/// replaced by each kind of junk.
template <class Visit>
void replace_each(json& whole, json& part, Visit visit) {
  if (!part.is_structured()) return;
  for (auto it = part.begin(); it != part.end(); ++it) {
    const json kept = *it;
    for (const json& value : junk()) {
      *it = value;
      visit(whole);
    }
    *it = kept;
    replace_each(whole, *it, visit);
  }
}

/// How many variants of the file are refused, out of all.
template <class Read>
std::pair<int, int> count_refused(const std::string& path, Read read) {
  int refused = 0, all = 0;
  json whole = sound(path);
  replace_each(whole, whole, [&](const json& variant) {
    ++all;
    const auto replace = json::error_handler_t::replace;
    const std::string text = variant.dump(-1, ' ', false, replace);
    try {
      read(JsonView::parse(text, path));
    } catch (const Error&) {
      ++refused;
    }
  });
  return {refused, all};
}

}  // namespace

TEST_CASE("junk in a device file is accepted or refused, nothing else") {
  const auto [refused, all] = count_refused(
      "devices/h100-sxm-80gb.json", [](const JsonView& f) { parse_device(f); });
  CHECK(refused > all / 2);
}

TEST_CASE("junk in a network file is accepted or refused, nothing else") {
  const auto [refused, all] = count_refused(
      "networks/ib-ndr.json", [](const JsonView& f) { parse_network(f); });
  CHECK(refused > all / 2);
}

TEST_CASE("junk in a machine file is accepted or refused, nothing else") {
  const auto [refused, all] =
      count_refused("nodes/ws-8x-a6000.json", [](const JsonView& f) {
        const Blueprint blueprint = make_blueprint(parse_machine(f));
        lay_out(blueprint, 1);
        lay_out(blueprint, 16);
      });
  CHECK(refused > all / 2);
}
