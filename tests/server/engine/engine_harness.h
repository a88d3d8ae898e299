#ifndef STEADYSTATE_TESTS_SERVER_ENGINE_ENGINE_HARNESS_H_
#define STEADYSTATE_TESTS_SERVER_ENGINE_ENGINE_HARNESS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "server/base/error.h"
#include "server/base/mutex.h"
#include "server/engine/engine.h"
#include "server/metrics/metrics.h"
#include "server/model/model.h"
#include "tests/testing/manual_clock.h"
#include "tests/testing/tiny_model.h"

namespace steadystate {

// A value that another thread will set. Thread-safe. Copies share it.
template <typename T>
class Future {
 public:
  void Set(T value) const {
    MutexLock lock(shared_->mutex);
    ASSERT_FALSE(shared_->value.has_value()) << "answered twice";
    // A status of its own: ThreadSanitizer does not see how Abseil counts who
    // shares one.
    if constexpr (std::is_same_v<T, absl::Status>) value = CloneError(value);
    shared_->value = std::move(value);
    shared_->ready.SignalAll();
  }

  bool IsSet() const {
    MutexLock lock(shared_->mutex);
    return shared_->value.has_value();
  }

  // True if it is set before so much time has passed.
  bool WaitFor(std::chrono::nanoseconds timeout) const {
    const auto give_up = std::chrono::steady_clock::now() + timeout;
    MutexLock lock(shared_->mutex);
    while (!shared_->value.has_value()) {
      const auto left = give_up - std::chrono::steady_clock::now();
      if (left <= left.zero()) return false;
      shared_->ready.WaitFor(shared_->mutex, left);
    }
    return true;
  }

  std::shared_ptr<const void> shared() const { return shared_; }

  // Waits; ends the program after a minute, which no test takes.
  decltype(auto) Get() const {
    MutexLock lock(shared_->mutex);
    while (!shared_->value.has_value()) {
      if (!shared_->ready.WaitFor(shared_->mutex, std::chrono::minutes(1)) &&
          !shared_->value.has_value()) {
        ADD_FAILURE() << "no answer";
        std::abort();
      }
    }
    if constexpr (std::is_same_v<T, absl::Status>) {
      return CloneError(*shared_->value);
    } else {
      return AsConst(*shared_->value);
    }
  }

 private:
  static const T& AsConst(const T& value) { return value; }
  struct Shared {
    Mutex mutex;
    CondVar ready;
    std::optional<T> value ABSL_GUARDED_BY(mutex);
  };
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

// A step's result, to keep.
struct StepRecord {
  StepRecord() = default;
  explicit StepRecord(const StepResult& from)
      : position(from.position),
        sampled_token(from.sampled_token),
        sampled_logprob(from.sampled_logprob),
        text_delta(from.text_delta),
        top_logprobs(from.top_logprobs),
        logits(from.logits.begin(), from.logits.end()),
        hidden(from.hidden.begin(), from.hidden.end()),
        replayed(from.replayed),
        queue_time(from.queue_time),
        compute_time(from.compute_time) {}

  uint64_t position = 0;
  std::optional<int32_t> sampled_token;
  std::optional<float> sampled_logprob;
  std::string text_delta;
  std::vector<TokenLogprob> top_logprobs;
  std::vector<float> logits;
  std::vector<float> hidden;
  bool replayed = false;
  absl::Duration queue_time;
  absl::Duration compute_time;
};

inline absl::StatusOr<StepRecord> RecordOf(
    const absl::StatusOr<StepResult>& result) {
  if (!result.ok()) return result.status();
  return StepRecord(*result);
}

using StepFuture = Future<absl::StatusOr<StepRecord>>;

// Records what a request produces. Not ready while it holds `limit` items or
// more.
template <typename R>
class Recorder final : public Receiver<R> {
 public:
  using Item = typename R::Item;
  using Summary = typename R::Summary;

  bool Ready(uint64_t /*tag*/) override {
    MutexLock lock(mutex_);
    return items_.size() < limit_;
  }
  void OnAnswers(std::span<const Answer<R>> answers) override {
    for (const Answer<R>& answer : answers) {
      for (Item& item : answer.items) Take(std::move(item));
      if (answer.end != nullptr) End(std::move(*answer.end));
    }
  }
  void End(absl::StatusOr<Summary> summary) { done_.Set(std::move(summary)); }

  void set_limit(size_t limit) {
    MutexLock lock(mutex_);
    limit_ = limit;
  }
  // Called on the compute thread after each item, with how many there are.
  void set_on_item(std::function<void(size_t)> hook) {
    MutexLock lock(mutex_);
    on_item_ = std::move(hook);
  }
  std::vector<Item> items() {
    MutexLock lock(mutex_);
    return items_;
  }
  void AwaitItems(size_t count) {
    MutexLock lock(mutex_);
    while (items_.size() < count) {
      if (!changed_.WaitFor(mutex_, std::chrono::minutes(1)) &&
          items_.size() < count) {
        ADD_FAILURE() << "only " << items_.size() << " items";
        std::abort();
      }
    }
  }
  const Future<absl::StatusOr<Summary>>& done() const { return done_; }

 private:
  void Take(Item item) {
    std::function<void(size_t)> hook;
    size_t count = 0;
    {
      MutexLock lock(mutex_);
      items_.push_back(std::move(item));
      count = items_.size();
      hook = on_item_;
      changed_.SignalAll();
    }
    if (hook) hook(count);
  }

  Mutex mutex_;
  CondVar changed_;
  std::vector<Item> items_ ABSL_GUARDED_BY(mutex_);
  size_t limit_ ABSL_GUARDED_BY(mutex_) = SIZE_MAX;
  std::function<void(size_t)> on_item_ ABSL_GUARDED_BY(mutex_);
  Future<absl::StatusOr<Summary>> done_;
};

// Loads each tiny model once per process.
std::shared_ptr<const Model> SharedTinyModel(DType weights = DType::kF32);

// Loads a tiny model with a layer of softmax attention, whose sessions have
// caps of up to `most` tokens, `usual` where they do not say.
std::shared_ptr<const Model> LoadModelOfCaps(uint64_t usual, uint64_t most);

// Tokens that look random, the same for the same seed.
std::vector<int32_t> MakeTokens(size_t count, uint64_t seed);

// The reason of an error; fails the test for other statuses.
ErrorReason ReasonOf(const absl::Status& status);
// The value of a key of an error's metadata; empty if it is not there.
std::string MetadataOf(const absl::Status& status, absl::string_view key);

// A metric's value in the exposition, "name{label=...}" given in part: the sum
// of the series whose line contains all of `parts`.
double SumOfSeries(const Metrics& metrics,
                   const std::vector<std::string>& parts);

// An engine on a tiny model with a clock of its own.
class EngineHarness {
 public:
  explicit EngineHarness(const EngineOptions& options = {},
                         std::shared_ptr<const Model> model = SharedTinyModel(),
                         SessionStore* store = nullptr);

  Engine& engine() { return *engine_; }
  ManualClock& clock() { return clock_; }
  Metrics& metrics() { return metrics_; }
  void DestroyEngine() { engine_.reset(); }

  // As SumOfSeries.
  double Metric(const std::vector<std::string>& parts) const {
    return SumOfSeries(metrics_, parts);
  }

  std::string CreateSession(const std::string& id = "");
  // The same as its options say, once the store has what it has to have.
  absl::StatusOr<SessionInfo> Create(const SessionOptions& options);
  uint64_t Position(const std::string& session);
  // Moves the session to the store, and waits for that.
  absl::Status Hibernate(const std::string& session);

  // Submit, as a writer of its own unless `request` names one. Refusals are
  // answers, too, with id 0.
  StepFuture StepAsync(StepRequest request, RequestId* id = nullptr);
  absl::StatusOr<StepRecord> Step(StepRequest request);
  // Submits work on the session, or on none, as a writer of its own. -> how it
  // ended, or its refusal.
  Future<absl::Status> WorkAsync(const std::string& session, WorkRequest work);
  absl::Status Work(const std::string& session, WorkRequest work) {
    return WorkAsync(session, std::move(work)).Get();
  }
  std::shared_ptr<Recorder<GenerateRequest>> Generate(GenerateRequest request,
                                                      RequestId* id = nullptr) {
    return Record(std::move(request), id);
  }
  std::shared_ptr<Recorder<ScoreRequest>> Score(ScoreRequest request,
                                                RequestId* id = nullptr) {
    return Record(std::move(request), id);
  }
  std::shared_ptr<Recorder<EmbedRequest>> Embed(EmbedRequest request,
                                                RequestId* id = nullptr) {
    return Record(std::move(request), id);
  }

 private:
  template <typename R>
  std::shared_ptr<Recorder<R>> Record(R request, RequestId* id) {
    if (request.writer == 0) request.writer = engine_->NewWriter();
    auto recorder = std::make_shared<Recorder<R>>();
    KeepAlive(recorder);
    const absl::StatusOr<RequestId> made =
        engine_->Submit(std::move(request), recorder);
    if (!made.ok()) recorder->End(made.status());
    if (id != nullptr) *id = made.ok() ? *made : 0;
    return recorder;
  }

  // Abseil as distributed counts a Status's references unseen by
  // ThreadSanitizer: none may end on two threads at once, so answers live until
  // the compute thread is gone.
  void KeepAlive(std::shared_ptr<const void> answer) {
    MutexLock lock(mutex_);
    kept_.push_back(std::move(answer));
  }

  ManualClock clock_;
  Metrics metrics_{"tiny"};
  Mutex mutex_;
  std::vector<std::shared_ptr<const void>> kept_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Engine> engine_;
};

// A step that asks for logits and hidden.
StepRequest StepOf(const std::string& session, std::vector<int32_t> tokens);
// Greedy unless the sampling is changed.
GenerateRequest GenerateOf(const std::string& session,
                           std::vector<int32_t> prompt, uint64_t max_tokens);
ScoreRequest ScoreOf(const std::string& session, std::vector<int32_t> tokens);
EmbedRequest EmbedOf(const std::string& session, std::vector<int32_t> tokens);

// Holds the compute thread inside a callback until released: what is submitted
// meanwhile meets an engine that does not move.
class ComputeHold {
 public:
  explicit ComputeHold(EngineHarness& harness);
  ~ComputeHold() { Release(); }
  void Release();

 private:
  Future<bool> released_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_SERVER_ENGINE_ENGINE_HARNESS_H_
