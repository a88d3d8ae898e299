#ifndef STEADYSTATE_SERVER_CHECKPOINT_FIND_CHECKPOINT_H_
#define STEADYSTATE_SERVER_CHECKPOINT_FIND_CHECKPOINT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace steadystate {

// Where a checkpoint is, and what it is called.
struct FoundCheckpoint {
  std::string directory;  // has config.json
  std::string name;       // "mamba2-130m"
};

// What people give as a checkpoint: its directory; or a model's folder in the
// cache of Hugging Face's hub (models--ORG--NAME), of which the revision that
// refs/main names is taken, or the only one. NOT_FOUND, INVALID_ARGUMENT: there
// is none, with what to do, also where the name of a model was given that has
// not been fetched.
absl::StatusOr<FoundCheckpoint> FindCheckpoint(const std::string& given);

// Why a directory with config.json has no weights that can be read: what it has
// instead, and what to do. NOT_FOUND.
absl::Status NoWeights(const std::string& directory);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_CHECKPOINT_FIND_CHECKPOINT_H_
