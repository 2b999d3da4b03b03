// "400Gbps" <-> BytesPerSecond and its like: the only place that knows
// prefixes. GB is 10^9 and GiB 2^30; b is a bit and B a byte; a bare number is
// an error.
#pragma once

#include <string>
#include <string_view>

#include "base/units.h"

namespace ztplan {

/// Each throws `Error` naming the text, what was expected and an example; also
/// for negative, non-finite and overflowing values, and for rates so small
/// that they can only be a slip.
Bytes parse_bytes(std::string_view text);                // "80GiB"
BytesPerSecond parse_rate(std::string_view text);        // "450GB/s" "400Gbps"
FlopsPerSecond parse_flops_rate(std::string_view text);  // "989TFLOPS"
Seconds parse_seconds(std::string_view text);            // "6us"
/// "10T" tokens, "50.4B" parameters: decimal prefixes K M B G T.
double parse_count(std::string_view text);

std::string text(Bytes bytes);          // "79.1 GiB", binary, three digits
std::string text(Seconds seconds);      // "12.3 ms"
std::string text(BytesPerSecond rate);  // "450 GB/s"
std::string text(FlopsPerSecond rate);  // "989 TFLOPS"
/// Exact forms that parse back to the same value.
std::string exact_text(Bytes bytes);
std::string exact_text(BytesPerSecond rate);

}  // namespace ztplan
