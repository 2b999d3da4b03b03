// CRC-32C (Castagnoli), the checksum of iSCSI: RFC 3720, section 12.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ztplan {

std::uint32_t crc32c(std::span<const std::byte> bytes);

}  // namespace ztplan
