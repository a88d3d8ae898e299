#ifndef STEADYSTATE_SERVER_ENGINE_STEP_TASK_H_
#define STEADYSTATE_SERVER_ENGINE_STEP_TASK_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/engine/inputs.h"
#include "server/engine/request.h"
#include "server/engine/task.h"

namespace steadystate {

// Absorbs the tokens or embeddings of a Step in pieces of `chunk_rows`, then
// answers once: a callback, or whoever looks at outcome() after Finish. In the
// second case it may be used again.
class StepTask final : public Task {
 public:
  // REQUIRES: the request is valid (validate.h).
  StepTask(StepRequest request, StepCallback done, size_t hidden_size,
           size_t chunk_rows);

  // One without a request.
  StepTask(size_t hidden_size, size_t chunk_rows);

  // Takes a request, whose answer is for a sink, and leaves an old one in its
  // place. REQUIRES: as above; it has none, or has forgotten it.
  void Take(StepRequest& request, StepSink& sink, uint64_t tag);
  // Forgets the request and its answer; keeps their memory as far as it is
  // little. REQUIRES: the request is finished.
  void Forget();

  absl::Status Begin(const SessionState& session) override;
  bool Ready() override { return true; }
  Piece Next() const override;
  void Advance(const PieceResult& result) override;
  void Deliver(const RequestTimes&) override {}
  bool done() const override { return absorbed_ == inputs_.rows(); }
  void Finish(const absl::Status& status, const RequestTimes& times) override;
  bool AllOrNothing() const override { return true; }
  uint64_t input_bytes() const override { return inputs_.bytes(); }

  const RequestBase& base() const { return request_; }
  StepSink* sink() const { return sink_; }
  uint64_t tag() const { return tag_; }
  // The answer, after Finish.
  const absl::StatusOr<StepResult>& outcome() const { return outcome_; }

 private:
  bool NeedsLogits() const;
  void FillOutputs(const PieceResult& result);

  StepRequest request_;
  const StepCallback done_;
  StepSink* sink_ = nullptr;
  uint64_t tag_ = 0;
  const size_t hidden_size_;
  const size_t chunk_rows_;
  Inputs inputs_;
  size_t absorbed_ = 0;
  absl::StatusOr<StepResult> outcome_ = StepResult();
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_STEP_TASK_H_
