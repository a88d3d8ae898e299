#ifndef STEADYSTATE_TESTS_TESTING_END_RECEIVER_H_
#define STEADYSTATE_TESTS_TESTING_END_RECEIVER_H_

#include <memory>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/engine/engine.h"
#include "server/engine/receiver.h"
#include "server/engine/request.h"

namespace steadystate {

// Calls a function with how a request of kind R ended, and hears nothing else.
template <typename R, typename Then>
class EndReceiver final : public Receiver<R> {
 public:
  explicit EndReceiver(Then then) : then_(std::move(then)) {}

  void OnAnswers(std::span<const Answer<R>> answers) override {
    for (const Answer<R>& answer : answers) {
      if (answer.end != nullptr) then_(*answer.end);
    }
  }
  void Refuse(const absl::Status& refusal) {
    const absl::StatusOr<typename R::Summary> end = refusal;
    then_(end);
  }

 private:
  Then then_;
};

// Submits the request, and calls `then` with its end, on the compute thread, or
// with its refusal at once. -> its id, or 0.
template <typename R, typename Then>
RequestId SubmitThen(Engine& engine, R request, Then then) {
  const auto receiver = std::make_shared<EndReceiver<R, Then>>(std::move(then));
  const absl::StatusOr<RequestId> id =
      engine.Submit(std::move(request), receiver);
  if (id.ok()) return *id;
  receiver->Refuse(id.status());
  return 0;
}

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_TESTING_END_RECEIVER_H_
