#include "cli/complain.h"

#include <fmt/format.h>

#include <new>

#include "base/error.h"
#include "report/failure.h"
#include "report/illegal.h"

namespace ztplan {
namespace {

/// In both its forms.
struct Complaint {
  Exit exit = Exit::failed;
  std::string text, json;
};

Complaint complaint_of(const Failure& failure, Exit exit) {
  return {exit, to_text(failure), to_json(failure)};
}

Complaint complaint_of(const std::exception_ptr& failure,
                       const std::string& speaker) {
  const auto said = [&](const char* what) {
    return speaker.empty() ? what : fmt::format("{}: {}", speaker, what);
  };
  try {
    std::rethrow_exception(failure);
  } catch (const Mishap& mishap) {
    return complaint_of({"failed", said(mishap.what()), mishap.hint()},
                        Exit::failed);
  } catch (const Error& error) {
    return complaint_of({"bad_input", said(error.what()), error.hint()},
                        Exit::bad_input);
  } catch (const Illegal& illegal) {
    return {Exit::illegal, to_text(illegal), to_json(illegal)};
  } catch (const Bug& bug) {
    return complaint_of(
        {"bug",
         said(fmt::format("ztplan broke a promise: {}", bug.what()).c_str()),
         "please report the command line"},
        Exit::failed);
  } catch (const std::bad_alloc&) {
    return complaint_of(
        {"no_memory", said("this machine has not enough memory"),
         "ask a smaller question"},
        Exit::failed);
  } catch (const std::exception& problem) {
    return complaint_of({"failed", said(problem.what()), ""}, Exit::failed);
  }
}

}  // namespace

Exit exit_of(const std::exception_ptr& failure) {
  return complaint_of(failure, "").exit;
}

Exit complain(const std::exception_ptr& failure, const std::string& speaker,
              Format format) {
  const Complaint complaint = complaint_of(failure, speaker);
  if (format == Format::json) {
    print(complaint.json);
  } else {
    note(complaint.text);
  }
  return complaint.exit;
}

}  // namespace ztplan
