#include "server/rpc/inference/infer_protocol.h"

#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "grpcpp/support/slice.h"
#include "inference/grpc_service.pb.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"
#include "server/rpc/arena_message.h"
#include "server/rpc/inference/infer_parameters.h"
#include "server/rpc/received.h"
#include "server/rpc/wire_reader.h"

namespace steadystate {
namespace {

using inference::ModelInferRequest;
using inference::ModelInferResponse;
using inference::ModelStreamInferResponse;

// What an answer takes on the wire beside names and logits.
constexpr size_t kAnswerBytes = 256;

// The messages of a stream, one request each.
class InferSource final : public StepSource {
 public:
  InferSource(const InferConverter& converter, size_t max_message_bytes)
      : converter_(converter), max_parsed_bytes_(2 * max_message_bytes) {}

  absl::Status Take(grpc::ByteBuffer& buffer) override {
    STEADYSTATE_RETURN_IF_ERROR(TakeBytes(buffer, wire_));
    done_ = false;
    return absl::OkStatus();
  }
  bool done() const override { return done_; }
  absl::Status Read() override;
  size_t size() const override { return read_ && !done_ ? 1 : 0; }
  absl::Status Get(size_t i, StepRequest& to, StepNames& names) override;
  size_t text_bytes(size_t /*i*/) const override { return 0; }
  void Consume() override { done_ = true; }
  void Unread() override {
    read_ = false;
    request_.Clear();
  }
  size_t bytes() const override { return wire_.size(); }
  void Clear() override {
    Unread();
    done_ = true;
    wire_ = grpc::Slice();
  }

 private:
  const InferConverter& converter_;
  const size_t max_parsed_bytes_;
  grpc::Slice wire_;
  bool done_ = true;
  bool read_ = false;
  absl::Status refusal_;  // it would take too much to read
  ArenaMessage<ModelInferRequest> request_;
  std::string session_;  // "sessions/{id}" of its sequence; empty: none
};

absl::Status InferSource::Read() {
  if (read_) return absl::OkStatus();
  constexpr absl::string_view kWhat = "the stream's message";
  const absl::string_view wire = BytesOf(wire_);
  const auto& type = *ModelInferRequest::descriptor();
  refusal_ = absl::OkStatus();
  if (wire.size() > kSmallMessageBytes &&
      ParsedBytes(wire, type, max_parsed_bytes_) > max_parsed_bytes_) {
    refusal_ = TooMuchToReadError(kWhat, wire.size(), max_parsed_bytes_);
  } else if (!request_->ParseFromArray(wire.data(),
                                       static_cast<int>(wire.size()))) {
    return UnreadableError(kWhat, type);
  }
  read_ = true;
  return absl::OkStatus();
}

absl::Status InferSource::Get(size_t /*i*/, StepRequest& to, StepNames& names) {
  STEADYSTATE_RETURN_IF_ERROR(refusal_);
  names.request_id = Excerpt(request_->id(), kMaxRequestIdBytes);
  const absl::Status status =
      converter_.ToStepRequest(*request_, to, names.form);
  session_ = to.session.empty() ? "" : SessionName(to.session);
  names.session = session_;
  return status;
}

void AddOutput(absl::string_view name, const char* type, int64_t dimension,
               const void* values, size_t bytes, ModelInferResponse& to) {
  auto& output = *to.add_outputs();
  output.set_name(name.data(), name.size());
  output.set_datatype(type);
  output.add_shape(dimension);
  to.add_raw_output_contents()->assign(static_cast<const char*>(values), bytes);
}

void AddDuration(uint64_t count, uint64_t ns,
                 inference::StatisticDuration& to) {
  to.set_count(count);
  to.set_ns(ns);
}

uint64_t Nanoseconds(absl::Duration duration) {
  return static_cast<uint64_t>(absl::ToInt64Nanoseconds(duration));
}

}  // namespace

void InferStatistics::Note(const StepResult& result) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  answered_.fetch_add(1, kRelaxed);
  queue_ns_.fetch_add(Nanoseconds(result.queue_time), kRelaxed);
  compute_ns_.fetch_add(Nanoseconds(result.compute_time), kRelaxed);
  last_ms_.store(absl::ToUnixMillis(clock_.WallNow()), kRelaxed);
}

void InferStatistics::Fill(inference::ModelStatistics& to) const {
  const uint64_t answered = answered_.load();
  const uint64_t queue = queue_ns_.load();
  const uint64_t compute = compute_ns_.load();
  to.set_last_inference(static_cast<uint64_t>(last_ms_.load()));
  to.set_inference_count(answered);
  auto& stats = *to.mutable_inference_stats();
  AddDuration(answered, queue + compute, *stats.mutable_success());
  AddDuration(failed_.load(), 0, *stats.mutable_fail());
  AddDuration(answered, queue, *stats.mutable_queue());
  AddDuration(answered, compute, *stats.mutable_compute_infer());
  // Reading and writing tensors is no part of those.
  AddDuration(answered, 0, *stats.mutable_compute_input());
  AddDuration(answered, 0, *stats.mutable_compute_output());
}

absl::string_view InferProtocol::method() const {
  return "inference.GRPCInferenceService/ModelStreamInfer";
}

std::unique_ptr<StepSource> InferProtocol::NewSource() const {
  return std::make_unique<InferSource>(converter_, max_message_bytes_);
}

const google::protobuf::Message& InferProtocol::message() const {
  return ModelStreamInferResponse::default_instance();
}

void InferProtocol::SetAnswer(const StepNames& names, const StepResult& result,
                              ModelInferResponse& to) const {
  statistics_.Note(result);
  to.set_model_name(converter_.model_name());
  to.set_model_version(kModelVersion.data(), kModelVersion.size());
  to.set_id(names.request_id.data(), names.request_id.size());
  if ((names.form & kSaysFinal) != 0) {
    (*to.mutable_parameters())["triton_final_response"].set_bool_param(true);
  }
  if (result.replayed) {
    (*to.mutable_parameters())["replayed"].set_bool_param(true);
  }
  if (result.sampled_token.has_value()) {
    AddOutput(kSampledTokenOutput, "INT32", 1, &*result.sampled_token,
              sizeof(int32_t), to);
  }
  if ((names.form & kHasLogits) != 0) {
    AddOutput(kLogitsOutput, "FP32", static_cast<int64_t>(result.logits.size()),
              result.logits.data(), result.logits.size_bytes(), to);
  }
  if ((names.form & kHasPosition) != 0) {
    AddOutput(kPositionOutput, "UINT64", 1, &result.position, sizeof(uint64_t),
              to);
  }
}

// As Triton says it, to those that look for that.
std::string InferProtocol::InItsTerms(absl::string_view session,
                                      ErrorReason reason,
                                      absl::string_view message) const {
  if (reason != ErrorReason::kSessionNotFound &&
      reason != ErrorReason::kSessionExpired) {
    return std::string(message);
  }
  return absl::StrCat(
      "inference request for sequence ",
      SequenceOf(absl::StripPrefix(session, "sessions/")), " to model '",
      converter_.model_name(),
      "' must specify the START flag on the first request of the sequence: ",
      message);
}

absl::Status InferProtocol::Respond(const StepNames& names,
                                    const absl::StatusOr<StepResult>& result,
                                    ModelInferResponse& to) const {
  if (result.ok()) {
    SetAnswer(names, *result, to);
    return absl::OkStatus();
  }
  statistics_.NoteFailure();
  const std::optional<ErrorDetails> details = GetErrorDetails(result.status());
  if (!details.has_value()) return result.status();
  return Renamed("request_id", "id",
                 MakeError(details->reason,
                           InItsTerms(names.session, details->reason,
                                      result.status().message()),
                           details->metadata, details->retry_after));
}

void InferProtocol::Answer(const StepNames& names, const StepResult& result,
                           StepQueue& out) const {
  const size_t logits = result.logits.size_bytes();
  auto& message = static_cast<ModelStreamInferResponse&>(
      out.RoomFor(kAnswerBytes + names.request_id.size() + logits, logits));
  SetAnswer(names, result, *message.mutable_infer_response());
}

std::unique_ptr<google::protobuf::Message> InferProtocol::Answer(
    const StepNames& names, const StepResult& result) const {
  auto answer = std::make_unique<ModelStreamInferResponse>();
  SetAnswer(names, result, *answer->mutable_infer_response());
  return answer;
}

std::unique_ptr<google::protobuf::Message> InferProtocol::Refuse(
    const StepNames& names, const PublicError& error) const {
  statistics_.NoteFailure();
  auto answer = std::make_unique<ModelStreamInferResponse>();
  const absl::Status renamed = Renamed(
      "request_id", "id",
      MakeError(error.details.reason,
                InItsTerms(names.session, error.details.reason, error.message),
                error.details.metadata));
  const std::optional<ErrorDetails> details = GetErrorDetails(renamed);
  answer->set_error_message(std::string(renamed.message()));
  ModelInferResponse& response = *answer->mutable_infer_response();
  response.set_model_name(converter_.model_name());
  response.set_model_version(kModelVersion.data(), kModelVersion.size());
  response.set_id(names.request_id.data(), names.request_id.size());
  auto& parameters = *response.mutable_parameters();
  parameters["error_reason"].set_string_param(
      std::string(Name(error.details.reason)));
  if (error.details.retry_after.has_value()) {
    parameters["retry_after_ms"].set_int64_param(
        absl::ToInt64Milliseconds(*error.details.retry_after));
  }
  for (const auto& [key, value] : details->metadata) {
    parameters[absl::StrCat("error_", key)].set_string_param(value);
  }
  if ((names.form & kSaysFinal) != 0) {
    parameters["triton_final_response"].set_bool_param(true);
  }
  return answer;
}

// Its memory is not the message's.
void InferProtocol::Send(std::unique_ptr<google::protobuf::Message> answer,
                         StepQueue& out) const {
  auto& from = static_cast<ModelStreamInferResponse&>(*answer);
  const size_t bytes = from.ByteSizeLong();
  const size_t memory = from.SpaceUsedLong();
  auto& message =
      static_cast<ModelStreamInferResponse&>(out.RoomFor(bytes, memory));
  message.set_error_message(std::move(*from.mutable_error_message()));
  // Moves it onto the message's arena by giving it to that.
  message.set_allocated_infer_response(from.release_infer_response());
}

}  // namespace steadystate
