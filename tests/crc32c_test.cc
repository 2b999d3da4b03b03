#include "exec/crc32c.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

using namespace ztplan;

// RFC 3720, appendix B.4; "123456789" as every catalogue of checksums has it.
TEST_CASE("checksums are the published ones") {
  std::array<unsigned char, 32> data{};
  const auto checksum = [&] { return crc32c(std::as_bytes(std::span(data))); };
  CHECK(checksum() == 0x8a9136aa);
  data.fill(0xff);
  CHECK(checksum() == 0x62a8ab43);
  std::iota(data.begin(), data.end(), static_cast<unsigned char>(0));
  CHECK(checksum() == 0x46dd794e);
  std::ranges::reverse(data);
  CHECK(checksum() == 0x113fdb5c);
  const std::string_view digits = "123456789";
  CHECK(crc32c(std::as_bytes(std::span(digits))) == 0xe3069283);
  CHECK(crc32c({}) == 0);
}
