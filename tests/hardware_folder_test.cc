// Where hardware/ is, and how a name leads to a file of it.
#include "spec/hardware_folder.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "spec/catalog.h"
#include "support/messages.h"
#include "support/temporary_directory.h"

using namespace ztplan;

namespace {

/// $ZTPLAN_DATA for as long as it lives.
class DataDirectory {
 public:
  explicit DataDirectory(const std::string& path) {
    ::setenv("ZTPLAN_DATA", path.c_str(), 1);
  }
  DataDirectory(const DataDirectory&) = delete;
  DataDirectory& operator=(const DataDirectory&) = delete;
  ~DataDirectory() { ::unsetenv("ZTPLAN_DATA"); }
};

constexpr const char* kDevice = R"({
  "id": "abacus", "aliases": ["beads"], "architecture": "wood",
  "memory": {"nominal": "1GB", "kind": "beads", "usable": "1GB",
             "bandwidth": "1GB/s"},
  "peak": {"fp32": "1TFLOPS"}, "source": "a museum"})";

/// A data directory of one device.
TemporaryDirectory& museum() {
  static TemporaryDirectory folder;
  std::filesystem::create_directories(folder.file("hardware/devices"));
  folder.write("hardware/devices/abacus.json", kDevice);
  folder.write("hardware/devices/notes.txt", "not a device");
  return folder;
}

}  // namespace

TEST_CASE("the data directory can be given, and must be one") {
  {
    const DataDirectory given(museum().path());
    CHECK(data_directory() == museum().path());
  }
  {
    const DataDirectory given("/no/such/place");
    CHECK(refusal([] { data_directory(); }) ==
          "ZTPLAN_DATA: no directory \"/no/such/place\"");
  }
  {
    const DataDirectory given("");  // as if it were not set
    CHECK(std::filesystem::exists(data_directory() + "/hardware"));
  }
  CHECK(std::filesystem::exists(data_directory() + "/hardware"));
}

TEST_CASE("a file is found by id or alias, however it is written") {
  const DataDirectory given(museum().path());
  CHECK(hardware_ids(HardwareFolder::devices) ==
        std::vector<std::string>{"abacus"});
  CHECK(hardware_ids(HardwareFolder::nodes).empty());
  for (const char* name : {"abacus", "ABACUS", "beads", "Beads"}) {
    CHECK(find_device(name).device.id == "abacus");
  }
  for (const char* name : {"", ".", "..", "abacus.json", "../devices/abacus"}) {
    CHECK_FALSE(find_hardware(HardwareFolder::devices, name).has_value());
  }
  CHECK(hint_of([] {
          find_device("abacsu");
        }).starts_with("did you mean abacus?"));
}

TEST_CASE("a device without a usual node needs one to be named") {
  const DataDirectory given(museum().path());
  CHECK(refusal([] { load_cluster("abacus", 1, {}); }) ==
        "abacus: no node is usual for it");
}

TEST_CASE("a path is read as a machine file") {
  CHECK(refusal([] { load_cluster("./no-such.json", 8, {}); }) != "");
  CHECK(refusal([] { load_cluster("/tmp", 8, {}); }) != "");
  const TemporaryDirectory folder;
  const std::string junk = folder.write("junk.json", "\x01\x02{");
  CHECK(refusal([&] { load_cluster(junk, 8, {}); }).starts_with(junk));
}
