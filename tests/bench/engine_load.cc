#include "tests/bench/engine_load.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "server/base/status_macros.h"
#include "server/session/session_state.h"
#include "tests/bench/random_bits.h"
#include "tests/bench/step_and_wait.h"
#include "tests/testing/end_receiver.h"

namespace steadystate::bench {
namespace {

// Sessions beside those asked for: of prompts.
constexpr size_t kSpareSessions = 2;

// A session that has read a random prompt of so many tokens.
absl::StatusOr<std::string> SessionBehind(Engine& engine, WriterId writer,
                                          size_t tokens) {
  STEADYSTATE_ASSIGN_OR_RETURN(const SessionInfo session,
                               engine.CreateSession({}));
  StepRequest request;
  request.session = session.id;
  request.writer = writer;
  request.tokens = RandomTokens(engine, tokens, 1);
  STEADYSTATE_RETURN_IF_ERROR(StepAndWait(engine, std::move(request)).status());
  return session.id;
}

// The names of so many copies of a session.
absl::StatusOr<std::vector<std::string>> ForkOf(Engine& engine, WriterId writer,
                                                const std::string& session,
                                                size_t count) {
  ForkOptions options;
  options.count = count;
  const auto forks = std::make_shared<Forks>();
  WorkRequest work = engine.ForkWork(std::move(options), forks);
  work.session = session;
  work.writer = writer;
  STEADYSTATE_RETURN_IF_ERROR(WorkAndWait(engine, std::move(work)));
  return forks->ids;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BenchEngine>> BenchEngine::Create(
    std::shared_ptr<const Model> model, size_t sessions,
    EngineOptions options) {
  std::unique_ptr<BenchEngine> made(new BenchEngine(std::move(model)));
  const SessionLayout layout = SessionLayoutOf(*made->model_, options);
  options.state_memory_bytes =
      (sessions + kSpareSessions) * layout.charge_bytes();
  // Prompts are timed as one step.
  options.max_step_tokens = options.max_tokens_per_request;
  STEADYSTATE_ASSIGN_OR_RETURN(
      made->engine_,
      Engine::Create(options, made->model_, Clock::Real(), made->metrics_));
  return made;
}

class DecodeLoad::Tokens final : public Receiver<GenerateRequest> {
 public:
  Tokens(DecodeLoad& load, size_t index) : load_(load), index_(index) {}

  void OnAnswers(std::span<const Answer<GenerateRequest>> answers) override {
    for (const Answer<GenerateRequest>& answer : answers) {
      for (size_t i = 0; i < answer.items.size(); ++i) load_.Arrived(index_);
      if (answer.end != nullptr) load_.Ended(answer.end->status());
    }
  }

 private:
  DecodeLoad& load_;
  const size_t index_;
};

absl::StatusOr<std::unique_ptr<DecodeLoad>> DecodeLoad::Start(Engine& engine,
                                                              size_t sessions,
                                                              DecodeCall call,
                                                              size_t behind) {
  std::unique_ptr<DecodeLoad> load(new DecodeLoad(engine, call));
  STEADYSTATE_RETURN_IF_ERROR(load->Open(sessions, behind));
  return load;
}

absl::Status DecodeLoad::MakeSessions(size_t sessions, size_t behind) {
  if (behind > 0) {
    STEADYSTATE_ASSIGN_OR_RETURN(const std::string parent,
                                 SessionBehind(engine_, writer_, behind));
    STEADYSTATE_ASSIGN_OR_RETURN(names_,
                                 ForkOf(engine_, writer_, parent, sessions));
    return engine_.DeleteSession(parent);
  }
  for (size_t i = 0; i < sessions; ++i) {
    STEADYSTATE_ASSIGN_OR_RETURN(const SessionInfo session,
                                 engine_.CreateSession({}));
    names_.push_back(session.id);
  }
  return absl::OkStatus();
}

absl::Status DecodeLoad::Open(size_t sessions, size_t behind) {
  writer_ = engine_.NewWriter();
  STEADYSTATE_RETURN_IF_ERROR(MakeSessions(sessions, behind));
  {
    MutexLock lock(mutex_);
    last_.resize(sessions);
    waiting_ = sessions;
    running_ = sessions;
  }
  for (size_t i = 0; i < sessions; ++i) {
    if (call_ == DecodeCall::kGenerate) {
      STEADYSTATE_RETURN_IF_ERROR(Generate(i));
    } else {
      Step(i, 0);
    }
  }
  MutexLock lock(mutex_);
  while (waiting_ > 0 && status_.ok()) changed_.Wait(mutex_);
  return status_;
}

absl::Status DecodeLoad::Generate(size_t index) {
  GenerateRequest request;
  request.session = names_[index];
  request.writer = writer_;
  request.prompt = {0};
  request.sampling.temperature = 0;
  request.ignore_eos = true;
  STEADYSTATE_ASSIGN_OR_RETURN(
      const RequestId id,
      engine_.Submit(std::move(request),
                     std::make_shared<Tokens>(*this, index)));
  requests_.push_back(id);
  return absl::OkStatus();
}

void DecodeLoad::Step(size_t index, int32_t token) {
  StepRequest request;
  request.session = names_[index];
  request.writer = writer_;
  request.tokens = {token};
  request.outputs.sampling.emplace();
  SubmitThen(engine_, std::move(request),
             [this, index](const absl::StatusOr<StepResult>& result) {
               if (!result.ok() || !Arrived(index)) {
                 Ended(result.status());
                 return;
               }
               Step(index, *result->sampled_token);
             });
}

bool DecodeLoad::Arrived(size_t index) {
  const BenchClock::time_point now = BenchClock::now();
  MutexLock lock(mutex_);
  ++tokens_;
  if (measuring_) Record(index, now);
  if (!last_[index].has_value() && --waiting_ == 0) changed_.SignalAll();
  last_[index] = now;
  return !stopping_;
}

void DecodeLoad::Record(size_t index, BenchClock::time_point now) {
  // Whole intervals only, from the first arrival at the first session on.
  if (index != 0) {
    if (!arrivals_.empty() && last_[index] >= arrivals_[0]) {
      intervals_.push_back(Seconds(now - *last_[index]));
    }
    return;
  }
  if (arrivals_.empty()) {
    tokens_before_ = tokens_;
  } else {
    intervals_.push_back(Seconds(now - arrivals_.back()));
  }
  arrivals_.push_back(now);
  tokens_after_ = tokens_;
  if (Enough()) changed_.SignalAll();
}

bool DecodeLoad::Enough() const {
  return arrivals_.size() > wanted_steps_ &&
         Seconds(arrivals_.back() - arrivals_.front()) >= wanted_seconds_;
}

void DecodeLoad::Ended(const absl::Status& status) {
  MutexLock lock(mutex_);
  if (!stopping_ && status_.ok()) {
    status_ = status.ok() ? absl::InternalError("a session stopped decoding")
                          : status;
  }
  --running_;
  changed_.SignalAll();
}

absl::StatusOr<DecodeTimes> DecodeLoad::Measure(double seconds, size_t steps) {
  Begin();
  MutexLock lock(mutex_);
  wanted_seconds_ = seconds;
  wanted_steps_ = steps;
  return Take();
}

void DecodeLoad::Begin() {
  MutexLock lock(mutex_);
  arrivals_.clear();
  intervals_.clear();
  wanted_seconds_ = std::numeric_limits<double>::infinity();
  measuring_ = true;
}

absl::StatusOr<DecodeTimes> DecodeLoad::End() {
  MutexLock lock(mutex_);
  wanted_seconds_ = 0;
  wanted_steps_ = std::max(arrivals_.size(), size_t{1});
  return Take();
}

absl::StatusOr<DecodeTimes> DecodeLoad::Take() {
  while (!Enough() && status_.ok()) changed_.Wait(mutex_);
  STEADYSTATE_RETURN_IF_ERROR(status_);
  measuring_ = false;
  DecodeTimes times;
  for (size_t i = 1; i < arrivals_.size(); ++i) {
    times.steps.Add(Seconds(arrivals_[i] - arrivals_[i - 1]));
  }
  times.intervals = Samples(std::move(intervals_));
  times.seconds = Seconds(arrivals_.back() - arrivals_.front());
  times.tokens = tokens_after_ - tokens_before_;
  return times;
}

DecodeLoad::~DecodeLoad() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  for (const RequestId request : requests_) engine_.Cancel(request);
  {
    MutexLock lock(mutex_);
    while (running_ > 0) changed_.Wait(mutex_);
  }
  for (const std::string& name : names_) {
    // One that failed may be gone already.
    static_cast<void>(engine_.DeleteSession(name));
  }
}

std::vector<int32_t> RandomTokens(const Engine& engine, size_t count,
                                  uint64_t seed) {
  const uint64_t vocabulary = engine.model().description().vocab_size;
  std::vector<int32_t> tokens(count);
  for (size_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<int32_t>(RandomBits(seed, i) % vocabulary);
  }
  return tokens;
}

absl::StatusOr<double> TimePrompt(Engine& engine, size_t tokens,
                                  uint64_t seed) {
  STEADYSTATE_ASSIGN_OR_RETURN(const SessionInfo session,
                               engine.CreateSession({}));
  StepRequest request;
  request.session = session.id;
  request.writer = engine.NewWriter();
  request.tokens = RandomTokens(engine, tokens, seed);
  request.outputs.sampling.emplace().temperature = 0;
  const BenchClock::time_point start = BenchClock::now();
  STEADYSTATE_ASSIGN_OR_RETURN(const BenchClock::time_point done,
                               StepAndWait(engine, std::move(request)));
  STEADYSTATE_RETURN_IF_ERROR(engine.DeleteSession(session.id));
  return Seconds(done - start);
}

}  // namespace steadystate::bench
