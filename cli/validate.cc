// ztplan validate: predicted against measured, run by run.
#include "base/error.h"
#include "cli/ask.h"
#include "cli/command.h"
#include "interop/kernel_runs.h"
#include "interop/training_runs.h"
#include "report/render_validation.h"

namespace ztplan {
namespace {

constexpr const FlagGroup* kGroups[] = {&kToleranceFlags, &kPartFlags,
                                        &kOutputFlags};

bool is_off(const ErrorSummary& summary, double tolerance) {
  return summary.count > 0 && summary.median_abs_error > tolerance;
}

// Nothing compared is no success.
bool deviates(const Validation& validation, double tolerance) {
  const std::int64_t compared = validation.time.count + validation.memory.count;
  return compared == 0 || is_off(validation.time, tolerance) ||
         is_off(validation.memory, tolerance);
}

Validation predict(const CsvTable& table, const Console& console) {
  if (holds_products(table)) return validate_runs(predict_products(table));
  if (holds_collectives(table))
    return validate_runs(predict_collectives(table));
  ProgressLine line(console, "runs predicted");
  return validate_runs(
      predict_runs(table, [&](std::int64_t done) { line.show(done); }));
}

Exit run_validate(const Flags& flags, const Console& console) {
  if (flags.words.empty()) {
    throw Error("which table?", "ztplan validate training_runs.csv");
  }
  const bool limited = !flags.tolerance.empty();
  const double tolerance =
      limited ? parse_share("--tolerance", flags.tolerance) : 0;
  const CsvTable table = CsvTable::load(flags.words[0]);
  const Validation validation = predict(table, console);
  print(render_validation(
      validation,
      {.one_factor = flags.one_factor, .attribution = flags.attribute},
      console.showing()));
  return limited && deviates(validation, tolerance) ? Exit::deviates
                                                    : Exit::yes;
}

}  // namespace

const Command kValidate{"validate",
                        "Predicts measured runs and prints the errors.",
                        "FILE [flags]",
                        {"ztplan validate training_runs.csv",
                         "ztplan validate runs.csv --one-factor --attribute",
                         "ztplan validate runs.csv --tolerance 20%"},
                        kGroups,
                        1,
                        run_validate};

}  // namespace ztplan
