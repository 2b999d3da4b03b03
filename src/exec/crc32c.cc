#include "exec/crc32c.h"

#include <array>
#include <cstring>

namespace ztplan {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78;  // reflected
constexpr std::size_t kSlices = 8;

using Table = std::array<std::array<std::uint32_t, 256>, kSlices>;

/// table[k][b]: what byte b does when k bytes follow it ("slicing by 8":
/// Kounavis and Berry, "A systematic approach to building high performance
/// software-based CRC generators", ISCC 2005).
constexpr Table make_table() {
  Table table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) {
      rest = (rest >> 1) ^ ((rest & 1) != 0 ? kPolynomial : 0);
    }
    table[0][byte] = rest;
  }
  for (std::size_t slice = 1; slice < kSlices; ++slice) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = table[slice - 1][byte];
      table[slice][byte] = (before >> 8) ^ table[0][before & 0xff];
    }
  }
  return table;
}

constexpr Table kTable = make_table();

std::uint32_t step_eight(std::uint32_t crc, const std::byte* data) {
  std::uint64_t word = 0;  // little endian
  std::memcpy(&word, data, kSlices);
  word ^= crc;
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < kSlices; ++i) {
    next ^= kTable[kSlices - 1 - i][word >> (8 * i) & 0xff];
  }
  return next;
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes) {
  std::uint32_t crc = ~std::uint32_t{0};
  for (; bytes.size() >= kSlices; bytes = bytes.subspan(kSlices)) {
    crc = step_eight(crc, bytes.data());
  }
  for (const std::byte byte : bytes) {
    crc =
        (crc >> 8) ^ kTable[0][(crc ^ static_cast<std::uint32_t>(byte)) & 0xff];
  }
  return ~crc;
}

}  // namespace ztplan
