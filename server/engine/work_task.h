#ifndef STEADYSTATE_SERVER_ENGINE_WORK_TASK_H_
#define STEADYSTATE_SERVER_ENGINE_WORK_TASK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "server/engine/request.h"
#include "server/engine/task.h"
#include "server/engine/task_of.h"
#include "server/session/session_state.h"

namespace steadystate {

// Work on a session's state that is no computing, such as copying it: done by
// SessionKeeper's thread when the requests before it are answered, while those
// behind it wait.
class WorkTask final : public TaskOf<WorkRequest> {
 public:
  absl::Status Begin(const SessionState&) override { return absl::OkStatus(); }
  bool IsWork() const override { return true; }
  absl::Status Work(Session& session) override {
    done_ = true;
    return request().work(session);
  }
  bool done() const override { return done_; }
  uint64_t input_bytes() const override { return request().bytes; }

  // No piece of it is computed.
  Piece Next() const override { return {}; }
  void Advance(const PieceResult&) override {}

 private:
  void Start() override { done_ = false; }
  void Summarize(const RequestTimes&, Nothing&) override {}

  bool done_ = false;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_WORK_TASK_H_
