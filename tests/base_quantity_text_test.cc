#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "base/quantity_text.h"
#include "support/messages.h"

using namespace ztplan;

TEST_CASE("bytes: GB is 10^9 and GiB 2^30") {
  struct Row {
    const char* text;
    std::int64_t bytes;
  };
  const Row rows[] = {
      {"0B", 0},
      {"80GiB", 80LL << 30},
      {"80GB", 80'000'000'000},
      {"1.5 KiB", 1536},
      {".5MB", 500'000},
      {" 64 GiB ", 64LL << 30},
      {"4TB", 4'000'000'000'000},
      {"1e3B", 1000},
      {"1PiB", 1LL << 50},
      {"9007199254740993B", 9007199254740993},  // 2^53 + 1
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(parse_bytes(row.text).value == row.bytes);
  }
}

TEST_CASE("rates: b is a bit and B a byte") {
  CHECK(parse_rate("450GB/s").value == 450e9);
  CHECK(parse_rate("150MB/s").value == 150e6);
  CHECK(parse_rate("400Gbps").value == 50e9);
  CHECK(parse_rate("16Gbps").value == 2e9);
  CHECK(parse_rate("200 Gb/s").value == 25e9);
  CHECK(parse_rate("100Gbit/s").value == 12.5e9);
  CHECK(parse_rate("1GiB/s").value == 0x1p30);
  CHECK(parse_rate("900GBps").value == 900e9);
  CHECK(parse_flops_rate("989TFLOPS").value == 989e12);
  CHECK(parse_flops_rate("1.5 PFLOP/s").value == 1.5e15);
}

TEST_CASE("times and counts") {
  CHECK(parse_seconds("6us").value == 6e-6);
  CHECK(parse_seconds("6µs").value == 6e-6);
  CHECK(parse_seconds("12 ms").value == doctest::Approx(0.012));
  CHECK(parse_seconds("1.5s").value == 1.5);
  CHECK(parse_seconds("2h").value == 7200);
  CHECK(parse_count("10T") == 10e12);
  CHECK(parse_count("50.4B") == 50.4e9);
  CHECK(parse_count("300M") == 300e6);
  CHECK(parse_count("124439808") == 124439808);
}

TEST_CASE("what is not a quantity is refused in one line") {
  const char* const bad[] = {"",        " ",       "GB",
                             "80",      "-1GB",    "nanGB",
                             "infGB",   "80GX",    "80G",
                             "1e400GB", "1e30GB",  "80Gb",
                             "80gb",    "1,000GB", "0x10GB",
                             "80GB/s",  "80GBGB",  "8 0GB",
                             "80mB",    "+80GB",   "9223372036854775808B",
                             "2000PiB", "1e"};
  for (const char* text : bad) {
    CAPTURE(text);
    CHECK(refusal([&] { parse_bytes(text); }) != "");
    CHECK(hint_of([&] { parse_bytes(text); }) ==
          "expected bytes, such as 80GiB or 80GB");
  }
  CHECK(refusal([] { parse_bytes("80"); }) == "\"80\": has no unit");
  CHECK(refusal([] { parse_bytes("-1GB"); }) == "\"-1GB\": negative");
  CHECK(refusal([] { parse_bytes("80Gb"); }) ==
        "\"80Gb\": b is a bit, a byte is B");
  CHECK(refusal([] { parse_rate("400G"); }) == "\"400G\": unknown unit \"G\"");
  CHECK(refusal([] { parse_rate("400GB"); }) != "");
  CHECK(refusal([] { parse_rate("1e40GB/s"); }) == "\"1e40GB/s\": too large");
  CHECK(refusal([] { parse_rate("1e-300B/s"); }) == "\"1e-300B/s\": too small");
  CHECK(refusal([] { parse_flops_rate("1e-300TFLOPS"); }) ==
        "\"1e-300TFLOPS\": too small");
  CHECK(parse_rate("0GB/s").value == 0);
  CHECK(refusal([] { parse_flops_rate("989"); }) != "");
  CHECK(refusal([] { parse_flops_rate("9GiFLOPS"); }) != "");
  CHECK(refusal([] { parse_seconds("6"); }) != "");
  CHECK(refusal([] { parse_seconds("6m"); }) != "");
  CHECK(refusal([] { parse_count("10X"); }) != "");
  CHECK(refusal([] { parse_count("1e19"); }) != "");
}

TEST_CASE("quantities are shown with three digits") {
  CHECK(text(Bytes{0}) == "0 B");
  CHECK(text(Bytes{1023}) == "1023 B");
  CHECK(text(Bytes{84'934'656'000}) == "79.1 GiB");
  CHECK(text(Bytes{2'728'191'552}) == "2.54 GiB");
  CHECK(text(Bytes{-3'435'973'837}) == "-3.20 GiB");
  CHECK(text(Bytes{(1LL << 40) - 1}) == "1.00 TiB");
  CHECK(text(Seconds{0.01234}) == "12.3 ms");
  CHECK(text(Seconds{0}) == "0 s");
  CHECK(text(Seconds{4.6e-6}) == "4.60 us");
  CHECK(text(Seconds{0.9999}) == "1.00 s");
  CHECK(text(Seconds{1234}) == "1234 s");
  CHECK(text(BytesPerSecond{450e9}) == "450 GB/s");
  CHECK(text(BytesPerSecond{3.35e12}) == "3.35 TB/s");
  CHECK(text(FlopsPerSecond{989e12}) == "989 TFLOPS");
}

TEST_CASE("exact text reads back to the same value") {
  CHECK(exact_text(Bytes{80LL << 30}) == "80GiB");
  CHECK(exact_text(Bytes{1'000'000'001}) == "1000000001B");
  CHECK(exact_text(BytesPerSecond{450e9}) == "450GB/s");
  for (std::int64_t n = 1; n < (1LL << 59); n = n * 3 + 1) {
    CHECK(parse_bytes(exact_text(Bytes{n})).value == n);
  }
  for (double rate = 1234.5; rate < 1e17; rate *= 7.77) {
    CAPTURE(rate);
    CHECK(parse_rate(exact_text(BytesPerSecond{rate})).value == rate);
  }
}
