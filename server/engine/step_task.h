#ifndef STEADYSTATE_SERVER_ENGINE_STEP_TASK_H_
#define STEADYSTATE_SERVER_ENGINE_STEP_TASK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/engine/request.h"
#include "server/engine/task.h"
#include "server/engine/task_of.h"
#include "server/model/model.h"

namespace steadystate {

// Absorbs the tokens or embeddings of a Step in pieces of `chunk_rows`, then
// answers once.
class StepTask final : public TaskOf<StepRequest> {
 public:
  // `model` outlives the task; null if no request wants text. `reset` makes a
  // session what a new one is; null if no request starts one.
  using Reset = std::function<absl::Status(Session&)>;
  StepTask(size_t hidden_size, size_t chunk_rows, const Model* model = nullptr,
           Reset reset = nullptr)
      : hidden_size_(hidden_size),
        chunk_rows_(chunk_rows),
        model_(model),
        reset_(std::move(reset)),
        inputs_({}, {}, hidden_size) {}

  bool OnFreshState() const override { return request().session.empty(); }
  absl::Status Begin(const SessionState& session) override;
  absl::Status Resume(const RequestRecord& record,
                      const SessionState& session) override;
  bool IsWork() const override { return resets_; }
  bool ComputesAfterWork() const override { return true; }
  absl::Status Work(Session& session) override;
  Piece Next() const override;
  void Advance(const PieceResult& result) override;
  bool done() const override {
    return absorbed_ == inputs_.rows() && !recomputes_ && !resets_;
  }
  bool AllOrNothing() const override { return true; }
  uint64_t rows() const override { return inputs_.rows(); }
  uint64_t UndoneBeforePiece() const override { return absorbed_; }
  uint64_t input_bytes() const override { return inputs_.bytes(); }

 private:
  void Start() override;
  void Summarize(const RequestTimes& times, StepResult& to) override;
  void Clear(StepRequest& request, StepResult& result) override;
  bool NeedsLogits() const;
  void FillOutputs(const PieceResult& from, StepResult& to);
  void FillHidden(const PieceResult& from, StepResult& to);
  std::string RecordedAnswer() const;
  bool FillFrom(absl::string_view answer, StepResult& to) const;

  const size_t hidden_size_;
  const size_t chunk_rows_;
  const Model* const model_;
  const Reset reset_;
  Inputs inputs_;
  size_t absorbed_ = 0;
  bool resets_ = false;  // the session, before anything is absorbed
  // All was absorbed before; what it answers is computed again from the
  // session's pending hidden vector.
  bool recomputes_ = false;
  // Of what is lent for too short a time.
  std::vector<float> logits_copy_;
  std::vector<float> hidden_copy_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_STEP_TASK_H_
