#include "exec/manifest.h"

#include <doctest/doctest.h>

#include <string>

#include "exec/crc32c.h"
#include "support/messages.h"

using namespace ztplan;

namespace {

Manifest example() {
  Manifest manifest;
  manifest.state = {.step = 123,
                    .seed = ~std::uint64_t{0},
                    .samples = 4096,
                    .loss_scale = 65536,
                    .strategy = "dp=2,tp=2",
                    .model = "tiny"};
  manifest.files = {{"rank-00000.bin", 24}, {"rank-00001.bin", 12}};
  manifest.tensors["a"] = {.dtype = Precision::fp32,
                           .rows = 2,
                           .columns = 3,
                           .pieces = {{{{0, 2, 0, 2}, 0, 4}, 0, 8, 0xdeadbeef},
                                      {{{0, 2, 2, 1}, 0, 2}, 1, 4, 7}}};
  manifest.tensors["b"] = {
      .dtype = Precision::bf16, .rows = 1, .columns = 2, .pieces = {}};
  return manifest;
}

/// The text of a manifest whose checksum is right, whatever it says.
std::string sealed(const std::string& body) {
  std::string text = to_text(example());
  Manifest none;
  const std::string empty = to_text(none);
  // What stands around the body is as long in every manifest.
  const std::string open = text.substr(0, text.find('\n') + 1);
  const std::uint32_t crc = crc32c(std::as_bytes(std::span(body)));
  std::string sum;
  for (int shift = 28; shift >= 0; shift -= 4) {
    sum += "0123456789abcdef"[crc >> shift & 0xf];
  }
  return open.substr(0, 12) + sum + open.substr(20) + body + "}\n";
}

std::string body_with(const std::string& tensor) {
  return R"({"version":1,"step":0,"seed":0,"samples":0,"loss_scale":1,)"
         R"("strategy":"","model":"","files":[{"name":"f","bytes":24}],)"
         R"("tensors":{"a":)" +
         tensor + "}}";
}

std::string tensor_of(const std::string& piece) {
  return R"({"dtype":"fp32","rows":2,"columns":3,"pieces":[")" + piece + "\"]}";
}

}  // namespace

TEST_CASE("a manifest comes back from its text") {
  CHECK(parse_manifest(to_text(example()), "x") == example());
  CHECK(parse_manifest(to_text(Manifest{}), "x") == Manifest{});
}

TEST_CASE("no byte of a manifest can change unseen") {
  const std::string text = to_text(example());
  for (std::size_t i = 0; i < text.size(); ++i) {
    CAPTURE(i);
    std::string other = text;
    other[i] = static_cast<char>(other[i] ^ 1);
    CHECK(refusal([&] { parse_manifest(other, "x"); }) ==
          "x: it is not as it was written");
    CHECK(refusal([&] { parse_manifest(text.substr(0, i), "x"); }) ==
          "x: it is not as it was written");
  }
}

TEST_CASE("a manifest that was sealed may still be none") {
  CHECK(parse_manifest(sealed(body_with(tensor_of("0 0 ff 0 2 0 3 0 6"))), "x")
            .tensors.at("a")
            .pieces[0]
            .crc32c == 255);
  struct Row {
    std::string piece, why;
  };
  const std::string nowhere =
      "a piece that lies without its file or its tensor";
  const Row rows[] = {
      {"", "not nine numbers of a piece: \"\""},
      {"0 0 ff 0 2 0 3 0", "not nine numbers of a piece: \"0 0 ff 0 2 0 3 0\""},
      {"0 0 ff 0 2 0 3 0 6 1",
       "not nine numbers of a piece: \"0 0 ff 0 2 0 3 0 6 1\""},
      {"0 -1 ff 0 2 0 3 0 6",
       "not nine numbers of a piece: \"0 -1 ff 0 2 0 3 0 6\""},
      {"1 0 ff 0 2 0 3 0 6", nowhere},
      {"0 4 ff 0 2 0 3 0 6", nowhere},
      {"0 0 ff 1 2 0 3 0 6", nowhere},
      {"0 0 ff 0 2 1 3 0 6", nowhere},
      {"0 0 ff 0 9223372036854775807 0 3 0 6", nowhere},
      {"0 9223372036854775807 ff 0 2 0 3 0 6", nowhere},
      {"0 0 ff 0 2 0 3 0 7", nowhere},
      {"0 0 ff 0 2 0 3 5 4", nowhere}};
  for (const Row& row : rows) {
    CHECK(refusal([&] {
            parse_manifest(sealed(body_with(tensor_of(row.piece))), "x");
          }) == "x: tensors.a.pieces[0]: " + row.why);
  }
  CHECK(refusal([] {
          parse_manifest(sealed(body_with(R"({"dtype":"fp8"})")), "x");
        }) == "x: tensors.a.dtype: expected fp32, fp16 or bf16");
  CHECK(refusal([] { parse_manifest(sealed(R"({"version":2})"), "x"); }) ==
        "x: version: expected version 1");
}
