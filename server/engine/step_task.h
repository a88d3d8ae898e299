#ifndef STEADYSTATE_SERVER_ENGINE_STEP_TASK_H_
#define STEADYSTATE_SERVER_ENGINE_STEP_TASK_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "server/engine/inputs.h"
#include "server/engine/request.h"
#include "server/engine/task.h"

namespace steadystate {

// Absorbs the tokens or embeddings of a Step in pieces of `chunk_rows`, then
// answers once.
class StepTask final : public Task {
 public:
  // REQUIRES: the request is valid (validate.h).
  StepTask(StepRequest request, StepCallback done, size_t hidden_size,
           size_t chunk_rows);

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

 private:
  bool NeedsLogits() const;
  void FillOutputs(const PieceResult& result);

  const StepRequest request_;
  const StepCallback done_;
  const size_t hidden_size_;
  const size_t chunk_rows_;
  const Inputs inputs_;
  size_t absorbed_ = 0;
  StepResult result_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_STEP_TASK_H_
