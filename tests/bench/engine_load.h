#ifndef STEADYSTATE_TESTS_BENCH_ENGINE_LOAD_H_
#define STEADYSTATE_TESTS_BENCH_ENGINE_LOAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/mutex.h"
#include "server/engine/engine.h"
#include "server/metrics/metrics.h"
#include "server/model/model.h"
#include "tests/bench/samples.h"
#include "tests/bench/stopwatch.h"

namespace steadystate::bench {

// An engine in this process, with memory for `sessions` sessions.
class BenchEngine {
 public:
  // With these options, memory aside.
  static absl::StatusOr<std::unique_ptr<BenchEngine>> Create(
      std::shared_ptr<const Model> model, size_t sessions,
      EngineOptions options);

  Engine& engine() { return *engine_; }
  const Model& model() const { return *model_; }

 private:
  explicit BenchEngine(std::shared_ptr<const Model> model)
      : model_(std::move(model)), metrics_("bench") {}

  std::shared_ptr<const Model> model_;
  Metrics metrics_;
  std::unique_ptr<Engine> engine_;
};

// How tokens are asked for.
enum class DecodeCall : uint8_t {
  kGenerate,  // one Generate for each session, the engine feeds tokens back
  kStep,      // one Step for each token, as a stream of steps does
};

// What some decoding came to.
struct DecodeTimes {
  // Seconds from a token of the first session to its next: where all have a
  // token in every batch, the times of batches.
  Samples steps;
  Samples intervals;  // the same of every session
  double seconds = 0;
  uint64_t tokens = 0;  // of all sessions, in these seconds

  double tokens_per_second() const {
    return static_cast<double>(tokens) / seconds;
  }
};

// Sessions that decode without end, all at once. Used by one thread.
class DecodeLoad {
 public:
  // Makes the sessions and lets them begin; returns when each has its first
  // token. The engine outlives the load.
  //   behind  tokens that each has absorbed before: one reads them, the others
  //           are copies of it
  static absl::StatusOr<std::unique_ptr<DecodeLoad>> Start(Engine& engine,
                                                           size_t sessions,
                                                           DecodeCall call,
                                                           size_t behind = 0);

  // Ends them and deletes the sessions.
  ~DecodeLoad();

  // Lets them go on for at least `seconds` and `steps` tokens of each session,
  // and tells about these.
  absl::StatusOr<DecodeTimes> Measure(double seconds, size_t steps);

  // The same from now on, and until the token that comes next.
  void Begin();
  absl::StatusOr<DecodeTimes> End();

 private:
  class Tokens;

  DecodeLoad(Engine& engine, DecodeCall call) : engine_(engine), call_(call) {}

  // Makes the sessions: fresh ones, or copies of one that has read a prompt.
  absl::Status MakeSessions(size_t sessions, size_t behind);
  absl::Status Open(size_t sessions, size_t behind);
  absl::Status Generate(size_t index);
  void Step(size_t index, int32_t token);

  // By the compute thread: session `index` has a token; a session has ended.
  // Arrived tells whether to go on.
  bool Arrived(size_t index);
  void Record(size_t index, BenchClock::time_point now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Enough() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<DecodeTimes> Take() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Ended(const absl::Status& status);

  Engine& engine_;
  const DecodeCall call_;
  WriterId writer_ = 0;
  std::vector<std::string> names_;
  std::vector<RequestId> requests_;

  Mutex mutex_;
  CondVar changed_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  size_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;  // for their first token
  // By session, when its last token came; nothing before the first.
  std::vector<std::optional<BenchClock::time_point>> last_
      ABSL_GUARDED_BY(mutex_);
  // Of what is measured: arrivals at the first session, the tokens of all by
  // the first and the last of them, intervals of all sessions.
  bool measuring_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<BenchClock::time_point> arrivals_ ABSL_GUARDED_BY(mutex_);
  uint64_t tokens_before_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t tokens_after_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<double> intervals_ ABSL_GUARDED_BY(mutex_);
  // Who measures is woken when so much has come.
  double wanted_seconds_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t wanted_steps_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Seconds that a prompt of random tokens takes on a fresh session, until the
// token after it is drawn.
// REQUIRES: tokens >= 1.
absl::StatusOr<double> TimePrompt(Engine& engine, size_t tokens, uint64_t seed);

// Random tokens of the engine's model, the same for the same seed.
std::vector<int32_t> RandomTokens(const Engine& engine, size_t count,
                                  uint64_t seed);

}  // namespace steadystate::bench

#endif  // STEADYSTATE_TESTS_BENCH_ENGINE_LOAD_H_
