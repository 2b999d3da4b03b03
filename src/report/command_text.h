// A question as the command line that asks it: for "next" and for documents.
#pragma once

#include <string>
#include <string_view>

#include "search/request.h"

namespace ztplan {

/// The strategy without keys that have their default, and without dp, which
/// --gpus fixes. `parse_strategy` reads an equal strategy from it.
std::string short_text(const Strategy& strategy);

/// "ztplan simulate --model 175b --gpus 1024 --seq 4096": every flag that was
/// given, in the shell's quotes where needed, and the number of GPUs; where
/// these are fewer than were asked, the batch that was planned. Limits of the
/// search are not repeated.
std::string command_text(std::string_view command, const Asked& asked,
                         int gpus);

/// The same search on twice the GPUs, whatever data parallelism was asked.
std::string larger_plan_text(const Asked& asked);

/// `word` as a shell reads it back.
std::string shell_word(const std::string& word);

}  // namespace ztplan
