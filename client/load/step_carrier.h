#ifndef STEADYSTATE_CLIENT_LOAD_STEP_CARRIER_H_
#define STEADYSTATE_CLIENT_LOAD_STEP_CARRIER_H_

#include <deque>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "client/load/carrier.h"
#include "client/mutex.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"
#include "steadystate/v1/generation.grpc.pb.h"

namespace steadystate::client {

// One StreamStep stream: the prompt of a request is a step that samples, and so
// is every token that it is answered with, but the last. A prompt that is
// longer than steps may be is cut, and its last piece samples.
//
// One write and one read are outstanding at most. At most one step of a session
// is, so what waits to be written is bounded by the number of sessions.
class StepCarrier final
    : public Carrier,
      public grpc::ClientBidiReactor<v1::StreamStepRequest,
                                     v1::StreamStepResponse> {
 public:
  // Opens the stream. `context` and `stub` outlive the object.
  StepCarrier(const LoadContext& context, v1::GenerationService::Stub& stub);

  void Begin(const Turn& turn) override;
  void Cancel() override;
  void Close() override;
  void WaitUntilClosed() override;
  Tally tally() const override;
  Progress progress() const override;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  using Result = v1::StreamStepResponse::Result;

  // A step that is to be written: of a token, or of some of a fresh prompt.
  struct Step {
    LoadSession* session;
    std::optional<int32_t> token;
    uint64_t prompt_tokens;
    bool samples;
  };

  void BeginLocked(const Turn& turn) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enqueue(LoadSession& session, const std::optional<int32_t>& token)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Take(const Result& result, LoadTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeStep(LoadSession& session, const v1::StepResponse& step,
                LoadTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Finish(LoadSession& session, SessionFate fate, LoadTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FailAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FillRequest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FillStep(const Step& next, v1::StepRequest& to)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Where a session of this stream has its place.
  size_t Slot(size_t session_index) const {
    return session_index / context_.options.streams;
  }

  // Writes what waits, if nothing is being written. Not with mutex_, since gRPC
  // may do much at once.
  void Flush() ABSL_LOCKS_EXCLUDED(mutex_);

  const LoadContext& context_;
  grpc::ClientContext call_;
  v1::StreamStepRequest request_;    // owned by the write under way
  v1::StreamStepResponse response_;  // owned by the read under way

  mutable Mutex mutex_;
  CondVar done_changed_;
  std::deque<Step> outbox_ ABSL_GUARDED_BY(mutex_);
  // By Slot; nullptr: none.
  std::vector<LoadSession*> in_flight_ ABSL_GUARDED_BY(mutex_);
  Tally tally_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_STEP_CARRIER_H_
