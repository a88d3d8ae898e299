#ifndef STEADYSTATE_SERVER_RPC_INFERENCE_INFER_PROTOCOL_H_
#define STEADYSTATE_SERVER_RPC_INFERENCE_INFER_PROTOCOL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/engine/request.h"
#include "server/rpc/answer.h"
#include "server/rpc/inference/infer_request.h"
#include "server/rpc/step_protocol.h"

namespace inference {
class ModelInferResponse;
class ModelStatistics;
}  // namespace inference

namespace steadystate {

// What has become of the requests of this protocol. Thread-safe.
class InferStatistics {
 public:
  // `clock` outlives it.
  explicit InferStatistics(const Clock& clock) : clock_(clock) {}

  void Note(const StepResult& result);
  void NoteFailure() { failed_.fetch_add(1, std::memory_order_relaxed); }

  // Their counts and times; not the model's name.
  void Fill(inference::ModelStatistics& to) const;

 private:
  const Clock& clock_;
  std::atomic<uint64_t> answered_ = 0;
  std::atomic<uint64_t> failed_ = 0;
  std::atomic<uint64_t> queue_ns_ = 0;
  std::atomic<uint64_t> compute_ns_ = 0;
  std::atomic<int64_t> last_ms_ = 0;  // since 1970; 0: none yet
};

// inference.GRPCInferenceService: a message has one request, or one answer.
class InferProtocol final : public StepProtocol {
 public:
  // Both outlive it; see StepMessage for `max_message_bytes`.
  InferProtocol(const InferConverter& converter, InferStatistics& statistics,
                size_t max_message_bytes)
      : converter_(converter),
        statistics_(statistics),
        max_message_bytes_(max_message_bytes) {}

  // What a call of ModelInfer ends with; fills in its response.
  absl::Status Respond(const StepNames& names,
                       const absl::StatusOr<StepResult>& result,
                       inference::ModelInferResponse& to) const;

  // Of streams, whose errors are answers.
  absl::string_view method() const override;
  std::unique_ptr<StepSource> NewSource() const override;
  const google::protobuf::Message& message() const override;
  size_t shared_bytes() const override { return 0; }
  void Answer(const StepNames& names, const StepResult& result,
              StepQueue& out) const override;
  std::unique_ptr<google::protobuf::Message> Answer(
      const StepNames& names, const StepResult& result) const override;
  std::unique_ptr<google::protobuf::Message> Refuse(
      const StepNames& names, const PublicError& error) const override;
  void Send(std::unique_ptr<google::protobuf::Message> answer,
            StepQueue& out) const override;
  // There is no word for that: a stream ends when the server does.
  void GoAway(absl::Time /*requests_until*/,
              StepQueue& /*out*/) const override {}

 private:
  void SetAnswer(const StepNames& names, const StepResult& result,
                 inference::ModelInferResponse& to) const;
  std::string InItsTerms(absl::string_view session, ErrorReason reason,
                         absl::string_view message) const;

  const InferConverter& converter_;
  InferStatistics& statistics_;
  const size_t max_message_bytes_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_INFERENCE_INFER_PROTOCOL_H_
