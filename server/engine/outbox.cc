#include "server/engine/outbox.h"

#include <algorithm>

#include "server/engine/step_task.h"

namespace steadystate {

void Outbox::Send() {
  for (Answer& answer : answers_) {
    Request& request = *answer.request;
    request.task->Finish(answer.status, request.times);
    if (request.step != nullptr) {
      answered_steps_.push_back(std::move(answer.request));
    }
  }
  answered_ += answers_.size();
  answers_.clear();
  SendSteps();
  std::sort(answered_sinks_.begin(), answered_sinks_.end());
  const auto end = std::unique(answered_sinks_.begin(), answered_sinks_.end());
  std::for_each(answered_sinks_.begin(), end,
                [](StepSink* sink) { sink->OnRoundEnd(); });
  answered_sinks_.clear();
}

// Tells sinks what came of their steps. Those of one message mostly lie
// together, and their sink hears of them at once.
void Outbox::SendSteps() {
  for (size_t i = 0; i < answered_steps_.size(); ++i) {
    const StepTask& step = *answered_steps_[i]->step;
    step_answers_.push_back({step.tag(), &step.outcome()});
    if (i + 1 < answered_steps_.size() &&
        answered_steps_[i + 1]->step->sink() == step.sink()) {
      continue;
    }
    step.sink()->OnSteps(step_answers_);
    step_answers_.clear();
    answered_sinks_.push_back(step.sink());
  }
  if (!answered_steps_.empty()) steps_.GiveBack(answered_steps_);
}

}  // namespace steadystate
