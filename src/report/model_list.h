// The models ztplan knows, as a list, and one of them with its parts.
#pragma once

#include <span>
#include <string>

#include "report/style.h"
#include "spec/model.h"

namespace ztplan {

/// JSON: schema ztplan.models/1, with `models` by name.
std::string render_models(std::span<const ModelSpec> models, Format format);
/// One entry with its shape, its parameters by part and its source. JSON: the
/// same schema with this one model and more keys.
std::string render_model(const ModelSpec& model, Format format);

}  // namespace ztplan
