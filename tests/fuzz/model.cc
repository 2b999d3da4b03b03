// Any bytes are a model or an `Error`, as a model file, as a Hugging Face
// config and as one line; a model can be counted.
#include "spec/model.h"

#include "fuzz/ask.h"
#include "spec/hf_config.h"
#include "spec/model_file.h"
#include "spec/model_text.h"

namespace {

using namespace ztplan;

void count(const ModelSpec& model) {
  validate(model);
  require(active_parameters(model) <= parameters(model) &&
              active_parameters(model) > 0,
          "a token passes through some of the parameters");
  layer_kinds(model);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const std::string_view text = as_text(data, size);
  ask([&] { count(parse_model_file(text, "fuzz")); });
  ask([&] { count(parse_hf_config(text, "fuzz")); });
  if (is_model_text(text)) ask([&] { count(parse_model_text(text)); });
  return 0;
}
