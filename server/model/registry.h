#ifndef STEADYSTATE_SERVER_MODEL_REGISTRY_H_
#define STEADYSTATE_SERVER_MODEL_REGISTRY_H_

#include <span>

#include "absl/strings/string_view.h"
#include "server/model/family.h"

namespace steadystate {

// Every family that can be loaded, by model_type. Thread-safe.
std::span<const Family> Families();

// The family of a model_type, or null.
const Family* FindFamily(absl::string_view model_type);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_REGISTRY_H_
