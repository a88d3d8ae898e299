#include "server/rpc/step_intake.h"

#include <cstdint>

#include "server/base/status_macros.h"
#include "server/rpc/answer.h"

namespace steadystate {
namespace {

// Steps of one message for which memory is kept until the next one.
constexpr size_t kKeptSteps = 256;
// The cost of what is looked at together, at most, but for the last step: for
// more there may be no room yet.
constexpr size_t kCostAtOnce = size_t{24} << 10;
// A refusal in memory beside its message: status, details, names.
constexpr size_t kRefusalMemory = 1024;

}  // namespace

absl::Status StepIntake::Take(grpc::ByteBuffer& buffer) {
  STEADYSTATE_RETURN_IF_ERROR(message_->Take(buffer));
  if (message_->bytes() <= InboundBudget::kSmallBytes) return absl::OkStatus();
  return charge_.Take(message_->bytes());
}

absl::Status StepIntake::Look() {
  arrivals_.clear();
  cost_ = 0;
  taken_up_ = 0;
  STEADYSTATE_RETURN_IF_ERROR(message_->Read());
  size_t place = submitted_;
  for (size_t i = 0; i < message_->size() && cost_ < kCostAtOnce; ++i) {
    if (place == submissions_.size()) submissions_.emplace_back();
    arrivals_.push_back(LookAt(i, submissions_[place].request));
    if (arrivals_.back().refusal.ok()) ++place;
    cost_ += arrivals_.back().cost;
    text_bytes_ += message_->text_bytes(i);
  }
  return absl::OkStatus();
}

StepIntake::Arrival StepIntake::LookAt(size_t i, StepRequest& to) {
  Arrival arrival;
  arrival.refusal = message_->Get(i, to, arrival.names);
  if (arrival.refusal.ok()) {
    to.writer = origin_.writer;
    to.client = origin_.client;
    to.deadline = origin_.deadline;
    arrival.cost = AnswerMemory(to.outputs, engine_) +
                   to.tokens.size() * sizeof(int32_t) +
                   to.embeddings.size() * sizeof(float);
  } else {
    // The refusal may have to wait for answers of its session before it.
    arrival.cost = kRefusalMemory + 2 * arrival.refusal.message().size();
    // Its memory would go to the next step, which may be small, and with that
    // to the engine, which knows nothing of it.
    to = {};
  }
  return arrival;
}

Submission<StepRequest>* StepIntake::TakeUp() {
  message_->Consume();
  if (!arrivals_[taken_up_++].refusal.ok()) return nullptr;
  Submission<StepRequest>& submission = submissions_[submitted_++];
  made_sessions_ = made_sessions_ || submission.request.ephemeral;
  return &submission;
}

void StepIntake::ClearSubmissions() {
  for (Submission<StepRequest>& submission : submissions()) {
    if (!submission.refusal.ok()) submission.request = {};
  }
  submitted_ = 0;
  if (submissions_.size() <= kKeptSteps) return;
  submissions_.resize(kKeptSteps);
  submissions_.shrink_to_fit();
}

void StepIntake::Drop() {
  arrivals_.clear();
  message_->Clear();
  charge_.Release();
}

}  // namespace steadystate
