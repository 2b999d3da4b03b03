#include "cli/listing.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/quote.h"

namespace ztplan {

std::string shown_name(const std::string& command, const Flags& flags) {
  if (flags.words.empty()) return "";
  if (flags.words[0] == "show" && flags.words.size() == 2 &&
      !flags.words[1].empty()) {
    return flags.words[1];
  }
  const std::string& name = flags.words.back();
  if (flags.words.size() == 1 && name == "show")
    throw Error("show what?",
                fmt::format("ztplan {} show NAME; ztplan {} lists the names",
                            command, command));
  throw Error(fmt::format("{} does not take {}", command, quote(name)),
              fmt::format("ztplan {} show NAME prints one entry", command));
}

}  // namespace ztplan
