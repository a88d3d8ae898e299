#ifndef STEADYSTATE_SERVER_MODEL_MODEL_LOADER_H_
#define STEADYSTATE_SERVER_MODEL_MODEL_LOADER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/model/model.h"

namespace steadystate {

// Turns a checkpoint directory into a Model.
class ModelLoader {
 public:
  // As Model::Load.
  static absl::StatusOr<std::shared_ptr<const Model>> Load(
      const ModelOptions& options);
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_MODEL_LOADER_H_
