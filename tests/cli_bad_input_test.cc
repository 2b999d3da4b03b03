// What a user may get wrong, and the line that says so: right exit code, one
// message, no crash, no wait.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "support/answers.h"
#include "support/temporary_directory.h"

using namespace ztplan;

namespace {

struct Row {
  const char* line;  // after "ztplan "
  int exit_code;
  const char* says;  // a part of what stands on stderr
};

void check_rows(const std::vector<Row>& rows, const std::string& directory) {
  for (const Row& row : rows) {
    CAPTURE(std::string(row.line));
    const CommandResult result = run_line(row.line, directory);
    CHECK(result.exit_code == row.exit_code);
    CAPTURE(result.errors);
    CHECK(result.errors.find(row.says) != std::string::npos);
    CHECK(result.output.empty());
  }
}

std::string nested(int depth) {
  return std::string(static_cast<std::size_t>(depth), '[') +
         std::string(static_cast<std::size_t>(depth), ']');
}

}  // namespace

TEST_CASE("wrong commands and flags get the nearest right one") {
  check_rows({{"", 2, "Commands"},
              {"plna", 2, "did you mean plan?"},
              {"frobnicate", 2, "ztplan --help lists them"},
              {"chek ds.json", 2, "there is no command \"chek\""},
              {"plan --modle gpt2", 2, "did you mean --model?"},
              {"plan --gpsu=8", 2, "did you mean --gpus?"},
              {"plan --zzz", 2, "has no flag"},
              {"plan --gpus", 2, "--gpus needs a value"},
              {"plan --gpus 8 --gpus 16", 2, "--gpus is given 2 times"},
              {"plan --gpus-per-node", 2, "--gpus-per-node needs a value"},
              {"plan --strict=1", 2, "--strict takes no value"},
              {"--version extra", 2, "version does not take"},
              {"models show ''", 2, "ztplan models show NAME"},
              {"plan 175b", 2, "plan does not take \"175b\""},
              {"models list", 2, "ztplan models show NAME"},
              {"models show a b", 2, "does not take"},
              {"help plna", 2, "did you mean plan?"}},
             ".");
}

TEST_CASE("an empty value is no way to leave a flag out") {
  check_rows(
      {{"plan --model gpt2 --gpus 8 -o ''", 2, "--output needs a value"},
       {"plan --model gpt2 --gpus 8 --gpu ''", 2, "--gpu needs a value"},
       {"plan --model '' --gpus 8", 2, "--model needs a value"},
       {"plan --model= --gpus 8", 2, "--model needs a value"},
       {"plan --model gpt2 --gpus 8 -o=x", 2, "write -o x"},
       {"plan --model gpt2 --gpus 8 --tp ''", 2, "--tp needs a value"},
       {"simulate --model gpt2 --strategy tp=1 --trace ''", 2,
        "--trace needs a value"},
       {"memory --model gpt2 --strategy ''", 2, "--strategy needs a value"}},
      ".");
}

TEST_CASE("show needs a name") {
  CHECK(run_line("models show").errors.starts_with("error: show what?"));
  CHECK(run_line("hardware show").exit_code == 2);
}

TEST_CASE("no tokens are no batch and no budget") {
  CHECK(run_line("plan --model 7b --gpus 8 --tokens-per-batch 0").exit_code ==
        2);
  CHECK(run_line("gpus --model 7b --gpu h100 --tokens 0").exit_code == 2);
}

TEST_CASE("wrong values are refused with what is expected") {
  check_rows(
      {{"plan", 2, "which model?"},
       {"plan --model gtp2 --gpus 8", 2, "did you mean"},
       {"plan --model gpt2 --gpus 0", 2, "a whole number from 1 to 1000000"},
       {"plan --model gpt2 --gpus -8", 2, "--gpus must be"},
       {"plan --model gpt2 --gpus 1e3", 2, "--gpus must be"},
       {"plan --model gpt2 --gpus 1000000000", 2, "--gpus must be"},
       {"plan --model gpt2 --gpus 99999999999999999999", 2, "--gpus must be"},
       {"plan --model gpt2 --gpus 8 --seq 0", 2, "--seq must be"},
       {"plan --model gpt2 --gpus 8 --seq nan", 2, "--seq must be"},
       {"plan --model gpt2 --gpus 8 --global-batch -1", 2,
        "--global-batch must be"},
       {"plan --model gpt2 --gpus 8 --tokens-per-batch inf", 2, "inf"},
       {"plan --model gpt2 --gpus 8 --precision bf61", 2, "bf16"},
       {"plan --model gpt2 --gpus 8 --engine megaton", 2, "megatron"},
       {"plan --model gpt2 --gpus 8 --engine deepspede", 2, "deepspeed"},
       {"plan --model gpt2 --gpus 8 --tp 1,,2", 2, "--tp must be"},
       {"plan --model gpt2 --gpus 8 --tp 0", 2, "--tp must be"},
       {"plan --model gpt2 --gpus 8 --tp 8..1", 2, "--tp must be"},
       {"plan --model gpt2 --gpus 8 --tp 1..1000000", 2, "--tp must be"},
       {"plan --model gpt2 --gpus 8 --zero 4", 2, "--zero must be"},
       {"plan --model gpt2 --gpus 8 --offload disk", 2, "offload must be"},
       {"plan --model gpt2 --gpus 8 --recompute half", 2, "recompute must be"},
       {"plan --model gpt2 --gpus 8 --margin 5", 2, "--margin must be"},
       {"plan --model gpt2 --gpus 8 --margin -5%", 2, "--margin must be"},
       {"plan --model gpt2 --gpus 8 --objective speed", 2, "objective must"},
       {"plan --model gpt2 --gpus 8 --format xml", 2, "--format must be"},
       {"plan --model gpt2 --gpus 8 --color blue", 2, "--color must be"},
       {"plan --model gpt2 --gpus 8 --network 400GiB", 2, "400GiB"},
       {"plan --model gpt2 --gpus 8 --network 25", 2, "25"},
       {"plan --model gpt2 --gpus 8 --gpu h10O", 2, "did you mean"},
       {"plan --model gpt2 --gpus 8 --cluster dgx-h101", 2, "did you mean"},
       {"plan --model gpt2 --gpus 12", 2, "12"},
       {"plan --model gpt:layers=2,hidden=7,heads=3 --gpus 8", 2, "heads"},
       {"plan --model gpt:layers=-1,hidden=64,heads=4 --gpus 8", 2, "layers"},
       {"plan --model gpt2 --gpus 8 --lora r=8,targets=q,gate", 2,
        "it has q, k, v, o, up and down"},
       {"memory --model gpt2", 2, "which strategy?"},
       {"memory --model gpt2 --strategy tp=two", 2, "tp must be"},
       {"memory --model gpt2 --strategy tpp=2", 2, "did you mean tp?"},
       {"memory --model gpt2 --strategy tp=2,tp=4", 2, "tp is given twice"},
       {"memory --model gpt2 --strategy dp=1000000,tp=1000000", 2, "more than"},
       {"hardware show h1000", 2, "did you mean"},
       {"models show ../../etc/passwd", 2, "passwd"}},
      ".");
}

TEST_CASE("what was typed is not echoed at length, nor done over again") {
  const auto ones = [](int count, char between) {
    std::string text = "1";
    for (int i = 1; i < count; ++i) text += std::string(1, between) + "1";
    return text;
  };
  for (const int count : {500, 60'000}) {
    CAPTURE(count);
    const CommandResult result =
        run_line("memory --model gpt2 --gpus 8 --strategy pp=2,stages=" +
                 ones(count, '-'));
    CHECK(result.exit_code == (count == 500 ? 4 : 2));
    CHECK(result.errors.size() < 400);
  }
  const std::string line = "plan --model gpt2 --gpus 8 --zero ";
  CHECK(run_line(line + ones(60'000, ',')).output ==
        run_line(line + "1").output);
}

TEST_CASE("an illegal strategy gets the rule and the nearest legal values") {
  check_rows({{"memory --model gpt2 --strategy tp=5", 4, "tp"},
              {"simulate --model gpt2 --strategy pp=5", 4, "rule"},
              {"memory --model gpt2 --gpus 8 --strategy tp=3", 4, "nearest"},
              {"memory --model gpt2 --gpus 8 --strategy tp=2,dp=2", 4,
               "4 devices, not 8"}},
             ".");
}

TEST_CASE("files that are no models are refused, quickly") {
  const TemporaryDirectory here;
  here.write("empty.json", "");
  here.write("junk.json", std::string("\x00\xff\xfe\x01{]", 6));
  here.write("deep.json", nested(100'000));
  here.write("list.json", "[1, 2, 3]");
  here.write("unknown.json", R"({"model_type": "no_such_model"})");
  std::string blank;
  blank.resize(100'000'000, ' ');
  here.write("huge.json", blank);
  ::mkfifo(here.file("fifo.json").c_str(), 0600);
  ::mkdir(here.file("folder.json").c_str(), 0700);
  check_rows({{"plan --model ./missing.json --gpus 8", 2, "missing.json"},
              {"plan --model ./empty.json --gpus 8", 2, "empty.json"},
              {"plan --model ./junk.json --gpus 8", 2, "junk.json"},
              {"plan --model ./deep.json --gpus 8", 2, "deep.json"},
              {"plan --model ./list.json --gpus 8", 2, "list.json"},
              {"plan --model ./unknown.json --gpus 8", 2, "no_such_model"},
              {"plan --model ./huge.json --gpus 8", 2, "huge.json"},
              {"plan --model ./fifo.json --gpus 8", 2, "fifo.json"},
              {"plan --model ./folder.json --gpus 8", 2, "folder.json"},
              {"plan --model gpt2 --cluster ./fifo.json --gpus 8", 2, "fifo"},
              {"plan --model gpt2 --cluster ./junk.json --gpus 8", 2, "junk"},
              {"validate ./fifo.json", 2, "fifo"},
              {"validate ./folder.json", 2, "folder"}},
             here.path());
}

TEST_CASE("tables that are no runs are refused, absurd rows are skipped") {
  const TemporaryDirectory here;
  here.write("empty.csv", "");
  here.write("columns.csv", "id,model\na,b\n");
  here.write("quote.csv", "model,gpu,gpus,measured_step_s\n\"a,b,c,d\n");
  check_rows({{"validate", 2, "which table?"},
              {"validate empty.csv", 2, "empty.csv"},
              {"validate columns.csv", 2, "no column gpu, gpus"},
              {"validate quote.csv", 2, "quote.csv"},
              {"validate a.csv b.csv", 2, "does not take"}},
             here.path());
  here.write("absurd.csv",
             "id,model,gpu,gpus,layers,hidden,heads,seq,measured_step_s\n"
             "a,x,H100,8,1e9,64,4,128,1\n"
             "b,x,H100,-8,2,64,4,128,1\n"
             "c,x,H100,8,2,64,4,128,nan\n"
             "d,x,H100,8,2,64,4,999999999999,1\n"
             "e,x,,8,2,64,4,128,1\n"
             "f,x,H100,3,2,64,4,128,1\n"
             "g,x,NoSuch,8,2,64,4,128,1\n"
             "h,x\n");
  const CommandResult result =
      run_line("validate absurd.csv --format csv", here.path());
  CHECK(result.exit_code == 0);
  CHECK(result.output.find("layers is no whole number") != std::string::npos);
  CHECK(result.output.find("the GPU is not named") != std::string::npos);
  CHECK(result.output.find("2 cells where the header has 9") !=
        std::string::npos);
}
