#ifndef STEADYSTATE_SERVER_RPC_INFERENCE_INFER_PARAMETERS_H_
#define STEADYSTATE_SERVER_RPC_INFERENCE_INFER_PARAMETERS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/model/sampler.h"

namespace inference {
class ModelInferRequest;
}  // namespace inference

namespace steadystate {

// The id of a sequence's session. A number N is "sequence-N"; so is a text of 1
// to 54 of [a-z0-9-] that begins with a letter or digit; any other one is
// "sequence--" and 32 hexadecimal digits of its SHA-256.
std::string SequenceSession(uint64_t id);
absl::StatusOr<std::string> SequenceSession(absl::string_view id);
// What is after "sequence-".
absl::string_view SequenceOf(absl::string_view session);

// What the parameters of a request come to.
struct InferParameters {
  std::string session;  // id; empty: the request is of no sequence
  bool starts = false;
  bool ends = false;
  bool says_final = false;  // the answer tells that it is the only one
  std::optional<uint64_t> expected_position;
  absl::Duration timeout = absl::InfiniteDuration();
  SamplingParams sampling;
  std::string sampling_by;  // a field that is about sampling; or empty
};

// Reads them: those of Triton for sequences, and of ours those of a step, by
// their names in steadystate.v1. INVALID_ARGUMENT: one is unknown, or of the
// wrong type; ranges are the engine's affair. `to.session` is right even then,
// as far as there is one.
absl::Status ReadParameters(const inference::ModelInferRequest& request,
                            InferParameters& to);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_INFERENCE_INFER_PARAMETERS_H_
