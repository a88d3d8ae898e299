#include "server/rpc/inference/infer_request.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "inference/grpc_service.pb.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"
#include "server/engine/validate.h"
#include "server/rpc/answer.h"
#include "server/rpc/convert.h"
#include "server/rpc/inference/infer_parameters.h"

namespace steadystate {
namespace {

using inference::InferTensorContents;
using ParameterMap =
    google::protobuf::Map<std::string, inference::InferParameter>;
using Input = inference::ModelInferRequest::InferInputTensor;

// Of an input or an output, of which none has a meaning here.
absl::Status CheckNoParameters(const std::string& field,
                               const ParameterMap& parameters) {
  if (parameters.empty()) return absl::OkStatus();
  const auto first = std::min_element(
      parameters.begin(), parameters.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });
  return OutOfBounds(absl::StrCat(field, ".parameters"), first->first,
                     "absent: tensors travel in the messages, whole");
}

absl::Status SetForm(const inference::ModelInferRequest& request,
                     uint32_t& form) {
  if (request.outputs().empty()) {
    form |= kHasSampledToken | kHasLogits | kHasPosition;
    return absl::OkStatus();
  }
  for (const auto& output : request.outputs()) {
    uint32_t bit = 0;
    if (output.name() == kSampledTokenOutput) bit = kHasSampledToken;
    if (output.name() == kLogitsOutput) bit = kHasLogits;
    if (output.name() == kPositionOutput) bit = kHasPosition;
    if (bit == 0) {
      return OutOfBounds("outputs.name", Excerpt(output.name(), kMaxShownBytes),
                         absl::StrCat(kSampledTokenOutput, ", ", kLogitsOutput,
                                      " or ", kPositionOutput));
    }
    if ((form & bit) != 0) {
      return OutOfBounds("outputs.name", output.name(), "there once");
    }
    STEADYSTATE_RETURN_IF_ERROR(CheckNoParameters(
        absl::StrCat("outputs.", output.name()), output.parameters()));
    form |= bit;
  }
  return absl::OkStatus();
}

absl::Status CheckInputs(const inference::ModelInferRequest& request) {
  if (request.inputs().empty()) {
    return MissingField("inputs",
                        absl::StrCat("give one, named ", kTokensInput));
  }
  for (const Input& input : request.inputs()) {
    if (input.name() != kTokensInput) {
      return OutOfBounds("inputs.name", Excerpt(input.name(), kMaxShownBytes),
                         kTokensInput);
    }
  }
  if (request.inputs_size() > 1) {
    return OutOfBounds(
        "inputs",
        absl::StrCat(kTokensInput, " ", request.inputs_size(), " times"),
        absl::StrCat(kTokensInput, " once"));
  }
  return CheckNoParameters(absl::StrCat("inputs.", kTokensInput),
                           request.inputs(0).parameters());
}

// Where a type's values are among the typed contents.
const auto& ContentsOf(const InferTensorContents& from, int32_t /*type*/) {
  return from.int_contents();
}
const auto& ContentsOf(const InferTensorContents& from, uint32_t /*type*/) {
  return from.uint_contents();
}
const auto& ContentsOf(const InferTensorContents& from, int64_t /*type*/) {
  return from.int64_contents();
}

int CountAll(const InferTensorContents& from) {
  return from.bool_contents_size() + from.int_contents_size() +
         from.int64_contents_size() + from.uint_contents_size() +
         from.uint64_contents_size() + from.fp32_contents_size() +
         from.fp64_contents_size() + from.bytes_contents_size();
}

// Sets tokens from numbers of type T, as they lie in memory or as they are
// written, which is the same here: little-endian.
template <typename T>
absl::Status Assign(const char* from, size_t count, size_t vocab_size,
                    std::vector<int32_t>& to) {
  to.resize(count);
  for (size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    if (value < 0 || static_cast<uint64_t>(value) >= vocab_size) {
      to.clear();
      return MakeError(ErrorReason::kTokenOutOfRange,
                       absl::StrCat("inputs.tokens[", i, "] is ", value,
                                    "; it must be in [0, ", vocab_size, ")"),
                       {{"field", "inputs.tokens"},
                        {"index", absl::StrCat(i)},
                        {"token", absl::StrCat(value)},
                        {"vocab_size", absl::StrCat(vocab_size)}});
    }
    to[i] = static_cast<int32_t>(value);
  }
  return absl::OkStatus();
}

// Numbers of type T, `count` of them by the shape.
template <typename T>
absl::Status ReadTokens(const inference::ModelInferRequest& request,
                        size_t count, size_t vocab_size,
                        std::vector<int32_t>& to) {
  const Input& input = request.inputs(0);
  if (request.raw_input_contents_size() == 0) {
    const auto& values = ContentsOf(input.contents(), T());
    if (static_cast<size_t>(values.size()) != count ||
        CountAll(input.contents()) != values.size()) {
      return OutOfBounds(
          "inputs.tokens.contents",
          absl::StrCat(values.size(), " values of type ", input.datatype(),
                       " and ", CountAll(input.contents()) - values.size(),
                       " of others"),
          absl::StrCat("the ", count, " values of the shape"));
    }
    // NOLINTNEXTLINE: numbers are bytes.
    return Assign<T>(reinterpret_cast<const char*>(values.data()), count,
                     vocab_size, to);
  }
  const std::string& raw = request.raw_input_contents(0);
  if (raw.size() != count * sizeof(T)) {
    return OutOfBounds("raw_input_contents[0]",
                       absl::StrCat(raw.size(), " bytes long"),
                       absl::StrCat(count * sizeof(T), " bytes long: ", count,
                                    " values of ", input.datatype()));
  }
  return Assign<T>(raw.data(), count, vocab_size, to);
}

// What the engine says of a step, in the protocol's names.
absl::Status InNamesOfInfer(absl::Status status) {
  if (status.ok()) return status;
  status = Renamed("tokens", "inputs.tokens", status);
  status = Renamed("outputs.sampling", "parameters", status);
  status = Renamed("request_id", "id", status);
  return Renamed("expected_position", "parameters.expected_position", status);
}

}  // namespace

InferConverter::InferConverter(const Model& model, const EngineOptions& options,
                               size_t max_message_bytes)
    : model_(model), options_(options), max_message_bytes_(max_message_bytes) {}

absl::Status InferConverter::CheckModel(absl::string_view field,
                                        absl::string_view name,
                                        absl::string_view version) const {
  if (name != model_name()) {
    const std::string shown(Excerpt(name, kMaxShownBytes));
    return MakeError(
        ErrorReason::kModelNotFound,
        absl::StrCat(field, " is '", shown, "'; the server's only model is '",
                     model_name(), "'"),
        {{"model", shown}});
  }
  if (version.empty() || version == kModelVersion) return absl::OkStatus();
  const std::string shown(Excerpt(version, kMaxShownBytes));
  return MakeError(
      ErrorReason::kModelNotFound,
      absl::StrCat("version '", shown, "' of model '", name,
                   "' is not here; its only version is '", kModelVersion, "'"),
      {{"model", std::string(name)}, {"version", shown}});
}

absl::Status InferConverter::ToStepRequest(
    const inference::ModelInferRequest& request, StepRequest& to,
    uint32_t& form) const {
  InferParameters parameters;
  const absl::Status read = ReadParameters(request, parameters);
  to.session = std::move(parameters.session);
  STEADYSTATE_RETURN_IF_ERROR(read);
  STEADYSTATE_RETURN_IF_ERROR(
      CheckModel("model_name", request.model_name(), request.model_version()));
  form = parameters.says_final ? kSaysFinal : 0;
  STEADYSTATE_RETURN_IF_ERROR(SetForm(request, form));
  if ((form & kHasSampledToken) == 0 && !parameters.sampling_by.empty()) {
    return MissingField(
        "outputs", absl::StrCat(parameters.sampling_by, " is for the output ",
                                kSampledTokenOutput));
  }
  to.embeddings.clear();
  STEADYSTATE_RETURN_IF_ERROR(SetTokens(request, to.tokens));
  to.ephemeral = false;
  to.starts = parameters.starts;
  to.ends = parameters.ends;
  to.request_id = request.id();
  to.expected_position = parameters.expected_position;
  to.timeout = parameters.timeout;
  to.outputs = {};
  to.outputs.logits = (form & kHasLogits) != 0;
  if ((form & kHasSampledToken) != 0) {
    to.outputs.sampling = std::move(parameters.sampling);
  }
  STEADYSTATE_RETURN_IF_ERROR(InNamesOfInfer(Validate(to, model_, options_)));
  const size_t bytes = MostWireBytes(to.outputs, model_);
  if (bytes <= max_message_bytes_) return absl::OkStatus();
  return MessageTooLarge(bytes, max_message_bytes_);
}

absl::Status InferConverter::CheckShape(
    const inference::ModelInferRequest& request, size_t& count) const {
  const auto& shape = request.inputs(0).shape();
  const bool good = (shape.size() == 1 && shape[0] > 0) ||
                    (shape.size() == 2 && shape[0] == 1 && shape[1] > 0);
  if (!good) {
    return OutOfBounds("inputs.tokens.shape",
                       shape.size() > 8
                           ? absl::StrCat("of ", shape.size(), " dimensions")
                           : absl::StrCat("[", absl::StrJoin(shape, ", "), "]"),
                       "[n] or [1, n], n at least 1");
  }
  count = static_cast<size_t>(shape[shape.size() - 1]);
  return CheckStepLength("inputs.tokens", count, options_);
}

absl::Status InferConverter::SetTokens(
    const inference::ModelInferRequest& request,
    std::vector<int32_t>& to) const {
  to.clear();
  STEADYSTATE_RETURN_IF_ERROR(CheckInputs(request));
  const Input& input = request.inputs(0);
  if (request.raw_input_contents_size() > 0) {
    if (CountAll(input.contents()) > 0) {
      return OutOfBounds("inputs.tokens.contents",
                         absl::StrCat(CountAll(input.contents()), " values"),
                         "absent where there are raw_input_contents");
    }
    if (request.raw_input_contents_size() > 1) {
      return OutOfBounds("raw_input_contents",
                         absl::StrCat(request.raw_input_contents_size()),
                         "one for each of inputs, 1");
    }
  }
  size_t count = 0;
  STEADYSTATE_RETURN_IF_ERROR(CheckShape(request, count));
  const size_t vocab_size = model_.description().vocab_size;
  if (input.datatype() == "INT32") {
    return ReadTokens<int32_t>(request, count, vocab_size, to);
  }
  if (input.datatype() == "INT64") {
    return ReadTokens<int64_t>(request, count, vocab_size, to);
  }
  if (input.datatype() == "UINT32") {
    return ReadTokens<uint32_t>(request, count, vocab_size, to);
  }
  return OutOfBounds("inputs.tokens.datatype",
                     Excerpt(input.datatype(), kMaxShownBytes),
                     "INT32, INT64 or UINT32");
}

}  // namespace steadystate
