#ifndef STEADYSTATE_SERVER_ENGINE_TASK_OF_H_
#define STEADYSTATE_SERVER_ENGINE_TASK_OF_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/engine/receiver.h"
#include "server/engine/request.h"
#include "server/engine/round.h"
#include "server/engine/task.h"

namespace steadystate {

// Empties a vector that is to be used again, which keeps its memory if that is
// little.
template <typename T>
void Empty(std::vector<T>& vector) {
  constexpr size_t kKeptBytes = 1024;
  vector.clear();
  if (vector.capacity() * sizeof(T) > kKeptBytes) vector.shrink_to_fit();
}

// A task for requests of kind R: what does not depend on the kind.
template <typename R>
class TaskOf : public Task {
 public:
  // Takes up a request, and leaves an old one in its place. REQUIRES: it has
  // none; the request is valid (validate.h).
  void Take(Submission<R>& from) {
    std::swap(request_, from.request);
    digest_ = request_.keyed() ? DigestOf(request_) : RequestDigest();
    receiver_ = std::move(from.receiver);
    tag_ = from.tag;
    Start();
  }

  const RequestBase& base() const final { return request_; }
  RequestDigest digest() const final { return digest_; }
  // Of kinds whose answers are too large to be kept.
  absl::Status Resume(const RequestRecord& record,
                      const SessionState& /*session*/) override {
    return ReplayUnavailable(record, "its answer was not kept");
  }
  bool Ready() final { return receiver_->Ready(tag_); }

  void Answer(const absl::Status* end, const RequestTimes& times,
              Round& round) final {
    if (items_.empty() && end == nullptr) return;
    if (!items_.empty()) HandOver(times);
    if (end != nullptr && end->ok()) {
      Summarize(times, *summary_);
    } else if (end != nullptr) {
      summary_ = *end;
    }
    round.Add<R>(receiver_, {.tag = tag_,
                             .items = items_,
                             .end = end == nullptr ? nullptr : &summary_});
  }

  bool HasItems() const final { return !items_.empty(); }
  void TakeBack() final { items_.clear(); }

  void Forget() final {
    receiver_.reset();
    Empty(items_);
    if (!summary_.ok()) summary_ = Summary();
    Clear(request_, *summary_);
  }

 protected:
  using Summary = typename R::Summary;

  const R& request() const { return request_; }
  R& mutable_request() { return request_; }
  // What the next answer hands over; Advance adds to it.
  std::vector<typename R::Item>& items() { return items_; }
  // What Summarize will be given.
  Summary& summary() { return *summary_; }
  const Summary& summary() const { return *summary_; }

  // Notes in the session what it has absorbed of the request.
  void Record(SessionState& session, bool finished, absl::string_view answer) {
    if (!request_.keyed()) return;
    session.records().Put({.id = request_.request_id,
                           .begin = *request_.expected_position,
                           .end = session.position(),
                           .digest = digest_,
                           .finished = finished,
                           .answer = answer});
  }

  // There is a request, none of which has begun: puts whatever a request before
  // has left in order.
  virtual void Start() = 0;
  // There are items that are about to be handed over.
  virtual void HandOver(const RequestTimes& /*times*/) {}
  // The task is done; completes its summary.
  virtual void Summarize(const RequestTimes& times, Summary& to) = 0;
  // Empties both, and frees what else takes memory.
  virtual void Clear(R& request, Summary& summary) {
    request = R();
    summary = Summary();
  }

 private:
  R request_;
  RequestDigest digest_{};
  std::shared_ptr<Receiver<R>> receiver_;
  uint64_t tag_ = 0;
  std::vector<typename R::Item> items_;
  absl::StatusOr<Summary> summary_ = Summary();
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_TASK_OF_H_
