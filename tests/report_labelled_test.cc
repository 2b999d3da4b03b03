#include <doctest/doctest.h>

#include <string>

#include "report/command_text.h"
#include "report/curve_text.h"
#include "report/labelled.h"

using namespace ztplan;

TEST_CASE("a labelled line wraps under itself within 80 columns") {
  const std::string word(30, 'x');
  CHECK(render_text(Labelled{"best", word + " " + word + " " + word}) ==
        "best      " + word + " " + word + "\n          " + word + "\n");
}

TEST_CASE("a long word breaks after its commas, and never elsewhere") {
  const std::string item(40, 'x');
  CHECK(render_text(Labelled{"", item + "," + item}) ==
        "          " + item + ",\n          " + item + "\n");
  const std::string whole(100, 'x');
  CHECK(render_text(Labelled{"", whole}) == "          " + whole + "\n");
}

TEST_CASE("a command goes on after a backslash and keeps its words") {
  const std::string item(40, 'x');
  CHECK(
      render_text(Labelled{"next", item + " a,b " + item, LineKind::command}) ==
      "next      " + item + " a,b \\\n          " + item + "\n");
}

TEST_CASE("a painted label takes the room of its letters") {
  CHECK(render_text(Labelled{"\x1b[32mfits\x1b[0m", "yes"}) ==
        "\x1b[32mfits\x1b[0m      yes\n");
  CHECK(render_text(Labelled{"does not fit", "no"}) == "does not fit  no\n");
}

TEST_CASE("lines are a list in Markdown") {
  CHECK(
      render_lines({{"step", "6.21 s"}, {"next", "ztplan", LineKind::command}},
                   Format::md) == "- step: 6.21 s\n- next: `ztplan`\n");
}

TEST_CASE("the short text of a strategy reads back to the same strategy") {
  for (const char* text :
       {"tp=8,pp=8,sp=1,zero=1", "pp=4,vpp=3", "pp=4,schedule=gpipe",
        "zero=3,offload=cpu+parameters,recompute=full:4,micro=2",
        "tp=2,cp=4,cp_type=ulysses", "zero=3,shard=8", "pp=2,stages=ends",
        "tp=1"}) {
    CAPTURE(text);
    constexpr int kGpus = 1024;
    const Strategy strategy = parse_strategy(text, kGpus);
    CHECK(parse_strategy(short_text(strategy), kGpus) == strategy);
    CHECK(short_text(strategy).size() <= std::string(text).size());
  }
}

TEST_CASE("a word is quoted only where a shell would change it") {
  CHECK(shell_word("gpt:layers=24,hidden=1024") == "gpt:layers=24,hidden=1024");
  CHECK(shell_word("my model.json") == "'my model.json'");
  CHECK(shell_word("it's") == "'it'\\''s'");
  CHECK(shell_word("") == "''");
}

TEST_CASE("a curve reaches its peak and spans the step") {
  const std::string drawn =
      draw_curve({{Seconds{0}, Phase::forward, Bytes{kGiB}},
                  {Seconds{5}, Phase::backward, Bytes{2 * kGiB}}},
                 Seconds{10});
  const std::string half(32, '#');
  CHECK(drawn.starts_with("     2.0 |" + std::string(32, ' ') + half + "\n"));
  CHECK(drawn.find("     1.0 |" + half + half + "\n") != std::string::npos);
  CHECK(drawn.ends_with("10.0 s\n"));
  CHECK(draw_curve({}, Seconds{10}).empty());
}

TEST_CASE("a curve tells what is held all the while from what comes and goes") {
  std::vector<CurvePoint> teeth;
  for (int i = 0; i < 1000; ++i) {
    teeth.push_back({Seconds{i * 0.01}, Phase::forward, Bytes{kGiB}});
    teeth.push_back({Seconds{i * 0.01 + 0.005}, Phase::loss, Bytes{2 * kGiB}});
  }
  const std::string drawn = draw_curve(teeth, Seconds{10});
  CHECK(drawn.starts_with("     2.0 |" + std::string(64, ':') + "\n"));
  CHECK(drawn.find("     1.0 |" + std::string(64, '#') + "\n") !=
        std::string::npos);
  // Nothing is known of a stage before its first task.
  const std::string late =
      draw_curve({{Seconds{5}, Phase::forward, Bytes{2 * kGiB}}}, Seconds{10});
  CHECK(late.starts_with("     2.0 |" + std::string(32, ' ') + "#"));
}
