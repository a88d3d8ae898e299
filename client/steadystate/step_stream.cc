#include "steadystate/step_stream.h"

#include <deque>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "client/mutex.h"
#include "google/protobuf/arena.h"
#include "grpcpp/support/client_callback.h"
#include "steadystate/error.h"
#include "steadystate/step_ledger.h"
#include "steadystate/v1/generation.grpc.pb.h"

namespace steadystate::client {
namespace {

// Of one message, and one step beyond: what a server takes is bounded in bytes,
// and in steps by --max_steps_per_message.
// Tokens, floats of embeddings, or bytes of text.
constexpr size_t kMaxMessageNumbers = 4096;
constexpr int kMaxMessageSteps = 1024;

// The steps that are written in one message. Made in an arena, since each of
// them has several messages within.
class Batch {
 public:
  Batch() { Clear(); }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  const v1::StreamStepRequest& request() const { return *request_; }

  bool full() const {
    return numbers_ >= kMaxMessageNumbers ||
           request_->requests_size() >= kMaxMessageSteps;
  }

  // Adds a step that has so many tokens, floats of embeddings or bytes of text.
  v1::StreamStepRequest::Request& Add(size_t numbers) {
    numbers_ += numbers;
    return *request_->add_requests();
  }

  void Clear() {
    arena_.Reset();
    request_ =
        google::protobuf::Arena::CreateMessage<v1::StreamStepRequest>(&arena_);
    numbers_ = 0;
  }

 private:
  google::protobuf::Arena arena_;
  v1::StreamStepRequest* request_ = nullptr;
  size_t numbers_ = 0;
};

// At most one read and one write are outstanding. A hold keeps the call open
// for writes that begin outside gRPC's callbacks; it is given up once there can
// be none any more, and none is outstanding.
class RealStepStream final
    : public StepStream,
      public grpc::ClientBidiReactor<v1::StreamStepRequest,
                                     v1::StreamStepResponse> {
 public:
  RealStepStream(const Client& client, const StepStreamOptions& options)
      : options_(options),
        stub_(v1::GenerationService::NewStub(client.channel())),
        call_(options.call),
        ledger_(options) {}

  ~RealStepStream() override {
    CloseWrites();
    call_.context()->TryCancel();
    WaitForEnd().IgnoreError();
  }

  void Start() {
    stub_->async()->StreamStep(call_.context(), this);
    AddHold();
    StartRead(&response_);
    StartCall();
  }

  size_t AddSession(absl::string_view name, uint64_t position) override {
    const MutexLock lock(mutex_);
    return ledger_.AddSession(name, position);
  }
  absl::Status PlaceSession(size_t session, absl::string_view name,
                            uint64_t position) override {
    const MutexLock lock(mutex_);
    return ledger_.PlaceSession(session, name, position);
  }
  absl::Status RemoveSession(size_t session) override {
    const MutexLock lock(mutex_);
    return ledger_.RemoveSession(session);
  }
  absl::Status Send(size_t session, const Step& step, uint64_t tag) override;
  std::optional<StepAnswer> Next() override;
  void Close() override { CloseWrites(); }
  void Cancel() override { call_.context()->TryCancel(); }
  absl::Status Finish() override {
    CloseWrites();
    return WaitForEnd();
  }
  bool broken() const override {
    const MutexLock lock(mutex_);
    return end_ && (!end_->ok() || ledger_.in_flight() > ready_.size());
  }
  std::optional<absl::Time> going_away() const override {
    const MutexLock lock(mutex_);
    return going_away_;
  }
  SessionStanding Standing(size_t session) const override {
    const MutexLock lock(mutex_);
    return ledger_.Standing(session, batches_begun_);
  }
  std::vector<SessionStanding> Unanswered() const override {
    const MutexLock lock(mutex_);
    return ledger_.Unanswered(batches_begun_);
  }

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  // What to do once mutex_ is released, since gRPC may do much at once.
  struct Action {
    const v1::StreamStepRequest* write = nullptr;
    bool writes_done = false;
    bool release = false;
  };

  Action Decide() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Do(const Action& action) ABSL_LOCKS_EXCLUDED(mutex_);
  // Moves the results of response_ to answers_.
  void TakeResults() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Deliver() ABSL_LOCKS_EXCLUDED(mutex_);
  // What the server says of itself.
  void NoteGoingAway() ABSL_LOCKS_EXCLUDED(mutex_);
  void CloseWrites() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status WaitForEnd() ABSL_LOCKS_EXCLUDED(mutex_);

  const StepStreamOptions options_;
  const std::unique_ptr<v1::GenerationService::Stub> stub_;
  Call call_;
  // Of the read under way, then of OnReadDone.
  v1::StreamStepResponse response_;
  // Of OnReadDone. Kept for their memory; the first answer_count_ are in use.
  std::vector<StepAnswer> answers_;
  size_t answer_count_ = 0;

  mutable Mutex mutex_;
  CondVar changed_;
  StepLedger ledger_ ABSL_GUARDED_BY(mutex_);
  std::deque<StepAnswer> ready_ ABSL_GUARDED_BY(mutex_);  // for Next
  // Written one after the other; the first of them is of number batches_begun_.
  std::deque<std::unique_ptr<Batch>> batches_ ABSL_GUARDED_BY(mutex_);
  uint64_t batches_begun_ ABSL_GUARDED_BY(mutex_) = 0;
  // The write's, while there is one; then kept for its memory.
  std::unique_ptr<Batch> writing_batch_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Batch> spare_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool delivering_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool write_failed_ ABSL_GUARDED_BY(mutex_) = false;  // nothing more leaves
  bool read_out_ ABSL_GUARDED_BY(mutex_) = false;      // nothing more comes
  bool released_ ABSL_GUARDED_BY(mutex_) = false;      // the hold
  std::optional<absl::Time> going_away_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  bool done_ ABSL_GUARDED_BY(mutex_) = false;  // no callback comes any more
};

absl::Status RealStepStream::Send(size_t session, const Step& step,
                                  uint64_t tag) {
  Action action;
  {
    const MutexLock lock(mutex_);
    if (closing_) return absl::FailedPreconditionError("the stream is closed");
    if (write_failed_ || read_out_) {
      return absl::UnavailableError("the stream has ended");
    }
    absl::Status possible = ledger_.CheckSend(session, step);
    if (!possible.ok()) return possible;
    if (batches_.empty() || batches_.back()->full()) {
      batches_.push_back(spare_ ? std::move(spare_)
                                : std::make_unique<Batch>());
    }
    ledger_.Send(
        session, step, tag, batches_begun_ + batches_.size() - 1,
        batches_.back()->Add(step.tokens.size() + step.embeddings.size() +
                             step.text.size()));
    action = Decide();
  }
  Do(action);
  return absl::OkStatus();
}

RealStepStream::Action RealStepStream::Decide() {
  // What is sent while answers are delivered leaves together afterwards.
  if (writing_ || delivering_) return {};
  if (!write_failed_ && !read_out_ && !batches_.empty()) {
    writing_ = true;
    writing_batch_ = std::move(batches_.front());
    batches_.pop_front();
    ++batches_begun_;
    return {&writing_batch_->request(), false, false};
  }
  if (released_ || !(read_out_ || closing_)) return {};
  released_ = true;
  return {nullptr, !read_out_, true};
}

void RealStepStream::Do(const Action& action) {
  if (action.write != nullptr) StartWrite(action.write);
  if (action.writes_done) StartWritesDone();
  if (action.release) RemoveHold();
}

void RealStepStream::OnWriteDone(bool ok) {
  // Where the write failed, the read fails too, perhaps later, and tells.
  Action action;
  {
    const MutexLock lock(mutex_);
    writing_ = false;
    if (!ok) write_failed_ = true;
    writing_batch_->Clear();
    spare_ = std::move(writing_batch_);
    action = Decide();
  }
  Do(action);
}

void RealStepStream::TakeResults() {
  answer_count_ = 0;
  for (auto& result : *response_.mutable_results()) {
    if (answer_count_ == answers_.size()) answers_.emplace_back();
    if (ledger_.Answer(result, answers_[answer_count_])) ++answer_count_;
  }
}

void RealStepStream::Deliver() {
  {
    const MutexLock lock(mutex_);
    TakeResults();
    if (!options_.on_answers) {
      for (size_t i = 0; i < answer_count_; ++i) {
        ready_.push_back(std::move(answers_[i]));
      }
      changed_.SignalAll();
      return;
    }
    if (answer_count_ == 0) return;
    ledger_.Release(answer_count_);
    delivering_ = true;
  }
  options_.on_answers(absl::MakeSpan(answers_.data(), answer_count_));
  Action action;
  {
    const MutexLock lock(mutex_);
    delivering_ = false;
    action = Decide();
  }
  Do(action);
}

void RealStepStream::NoteGoingAway() {
  if (!response_.has_going_away()) return;
  const absl::Time until = RequestsUntil(response_.going_away());
  {
    const MutexLock lock(mutex_);
    if (going_away_.has_value()) return;
    going_away_ = until;
  }
  if (options_.on_going_away) options_.on_going_away(until);
}

void RealStepStream::OnReadDone(bool ok) {
  if (ok) {
    Deliver();
    NoteGoingAway();
    StartRead(&response_);
    return;
  }
  Action action;
  {
    const MutexLock lock(mutex_);
    read_out_ = true;
    action = Decide();
  }
  Do(action);
}

void RealStepStream::OnDone(const grpc::Status& status) {
  const absl::Status end = ToStatus(status);
  {
    const MutexLock lock(mutex_);
    end_ = end;
  }
  if (options_.on_end) options_.on_end(end);
  const MutexLock lock(mutex_);
  done_ = true;
  changed_.SignalAll();
}

std::optional<StepAnswer> RealStepStream::Next() {
  const MutexLock lock(mutex_);
  while (ready_.empty() && ledger_.in_flight() > 0 && !done_) {
    changed_.Wait(mutex_);
  }
  if (ready_.empty()) return std::nullopt;
  StepAnswer answer = std::move(ready_.front());
  ready_.pop_front();
  ledger_.Release(1);
  return answer;
}

void RealStepStream::CloseWrites() {
  Action action;
  {
    const MutexLock lock(mutex_);
    closing_ = true;
    action = Decide();
  }
  Do(action);
}

absl::Status RealStepStream::WaitForEnd() {
  const MutexLock lock(mutex_);
  while (!done_) changed_.Wait(mutex_);
  return *end_;
}

}  // namespace

std::unique_ptr<StepStream> StepStream::Open(const Client& client,
                                             const StepStreamOptions& options) {
  auto stream = std::make_unique<RealStepStream>(client, options);
  stream->Start();
  return stream;
}

}  // namespace steadystate::client
