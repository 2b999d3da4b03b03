// The formats there are, each defined in the file of its name.
#pragma once

#include "interop/format.h"

namespace ztplan {

const FileFormat& deepspeed_format();
const FileFormat& megatron_format();
const FileFormat& torchtitan_format();
const FileFormat& accelerate_format();
const FileFormat& fsdp_format();
const FileFormat& colossalai_format();

}  // namespace ztplan
