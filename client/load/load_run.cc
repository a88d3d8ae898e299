#include "client/load/load_run.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/error.h"
#include "client/load/arrivals.h"
#include "client/load/generate_carrier.h"
#include "client/load/process_usage.h"
#include "client/load/session_pool.h"
#include "client/load/session_store.h"
#include "client/load/step_carrier.h"

namespace steadystate::client {
namespace {

// Of one call about a session.
constexpr absl::Duration kCallTimeout = absl::Seconds(10);
// How often interruptions and progress are looked at.
constexpr absl::Duration kTick = absl::Milliseconds(50);
// How long answers that are on their way are waited for, once requests under
// way were told to end; then calls are cancelled.
constexpr absl::Duration kStepGrace = absl::Seconds(5);
constexpr absl::Duration kGenerateGrace = absl::Seconds(1);
// Over which the speed that progress shows is taken.
constexpr absl::Duration kSpeedTime = absl::Milliseconds(500);

LoadTime After(LoadTime time, absl::Duration duration) {
  return duration == absl::InfiniteDuration()
             ? LoadTime::max()
             : time + absl::ToChronoNanoseconds(duration);
}

absl::Duration Between(LoadTime from, LoadTime to) {
  return absl::FromChrono(to - from);
}

// One run, from the first session created to the last one deleted. Confined to
// one thread.
class LoadRun {
 public:
  LoadRun(const Client& client, const CallOptions& call,
          const LoadOptions& options,
          const std::function<void(const LoadProgress&)>& on_progress)
      : client_(client),
        call_(call),
        options_(options),
        on_progress_(on_progress),
        stub_(v1::GenerationService::NewStub(client.channel())),
        store_(client, std::min(call.timeout, kCallTimeout)),
        pool_(options.open_loop()) {}

  absl::StatusOr<LoadResult> Run();

 private:
  absl::Status LookAtModel();
  absl::Status CreateSessions();
  void OpenCarriers(const LoadContext& context);
  void Measure(Window& window);
  void Drain(LoadTime now);
  void Collect(const Window& window);
  void DeleteSessions();

  // Does what is due, until `until` or until `done` is true.
  void Drive(LoadTime until, const std::function<bool()>& done);
  void SendArrivals(LoadTime now);
  void MendSessions(LoadTime now);
  void ShowProgress(LoadTime now);
  void Begin(const std::optional<Turn>& turn);
  LoadTime NextMending() const;
  bool Interrupted() const {
    return call_.canceller != nullptr && call_.canceller->cancelled();
  }
  bool Quiet() const;

  const Client& client_;
  const CallOptions& call_;
  const LoadOptions options_;
  const std::function<void(const LoadProgress&)>& on_progress_;
  const std::unique_ptr<v1::GenerationService::Stub> stub_;
  SessionStore store_;
  std::vector<std::unique_ptr<LoadSession>> sessions_;
  SessionPool pool_;
  std::vector<std::unique_ptr<Carrier>> carriers_;
  std::vector<std::pair<LoadTime, LoadSession*>> resting_;
  LoadResult result_;

  // Of a run under way.
  LoadTime start_;
  const Window* window_ = nullptr;
  std::optional<PoissonArrivals> arrivals_;  // nothing arrives without
  LoadTime next_arrival_ = LoadTime::max();
  LoadTime speed_since_;
  uint64_t speed_tokens_ = 0;
  double speed_ = 0;
};

absl::Status LoadRun::LookAtModel() {
  v1::GetModelRequest request;
  request.set_name("models/-");
  auto model = client_.GetModel(
      request, {.timeout = std::min(call_.timeout, kCallTimeout),
                .canceller = call_.canceller});
  if (!model.ok()) return model.status();
  result_.model = *std::move(model);
  const uint64_t cap = result_.model.context_cap();
  const uint64_t request_tokens =
      options_.prompt_tokens + options_.generate_tokens;
  if (cap == 0 || request_tokens <= cap) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a request has ", request_tokens,
      " tokens (--prompt_tokens and --generate_tokens), more than the ", cap,
      " that a session of this model can absorb"));
}

// Refusals are counted; what ends the run is that nobody answers.
absl::Status LoadRun::CreateSessions() {
  for (size_t i = 0; i < options_.sessions; ++i) {
    auto session = std::make_unique<LoadSession>(i, options_, result_.model);
    const absl::Status created = store_.Create(*session, call_.canceller);
    if (created.ok()) {
      sessions_.push_back(std::move(session));
    } else if (Interrupted() || !GetErrorDetails(created)) {
      return created;
    }
    on_progress_({});
  }
  return absl::OkStatus();
}

void LoadRun::OpenCarriers(const LoadContext& context) {
  if (options_.rpc == LoadRpc::kGenerate) {
    carriers_.push_back(std::make_unique<GenerateCarrier>(context, *stub_));
    return;
  }
  for (size_t i = 0; i < options_.streams; ++i) {
    carriers_.push_back(std::make_unique<StepCarrier>(context, *stub_));
  }
}

void LoadRun::Begin(const std::optional<Turn>& turn) {
  if (!turn) return;
  carriers_[turn->session->index() % carriers_.size()]->Begin(*turn);
}

bool LoadRun::Quiet() const {
  const SessionPool::Counts counts = pool_.counts();
  return counts.alive == 0 || (counts.busy == 0 && counts.backlog == 0);
}

void LoadRun::SendArrivals(LoadTime now) {
  while (next_arrival_ <= now) {
    if (window_->Contains(next_arrival_)) {
      ++result_.arrivals;
      result_.send_lag.Record(LoadClock::now() - next_arrival_);
    }
    Begin(pool_.Arrive(next_arrival_));
    next_arrival_ = start_ + arrivals_->Next();
  }
}

LoadTime LoadRun::NextMending() const {
  LoadTime next = LoadTime::max();
  for (const auto& [time, session] : resting_) next = std::min(next, time);
  return next;
}

void LoadRun::MendSessions(LoadTime now) {
  while (LoadSession* const session = pool_.TakeBroken()) {
    resting_.emplace_back(After(now, session->mending().rest), session);
  }
  for (size_t i = 0; i < resting_.size();) {
    const auto [time, session] = resting_[i];
    if (time > now) {
      ++i;
      continue;
    }
    resting_[i] = resting_.back();
    resting_.pop_back();
    if (store_.Mend(*session)) {
      Begin(pool_.GiveBack(*session, LoadClock::now()));
    } else {
      pool_.Retire();
    }
  }
}

void LoadRun::ShowProgress(LoadTime now) {
  LoadProgress progress;
  uint64_t tokens = 0;
  for (const auto& carrier : carriers_) {
    const Carrier::Progress part = carrier->progress();
    tokens += part.drawn_tokens;
    progress.errors += part.failed;
  }
  const absl::Duration since = Between(speed_since_, now);
  if (since >= kSpeedTime) {
    speed_ = static_cast<double>(tokens - speed_tokens_) /
             absl::ToDoubleSeconds(since);
    speed_tokens_ = tokens;
    speed_since_ = now;
  }
  progress.elapsed = Between(start_, now);
  progress.tokens_per_second = speed_;
  on_progress_(progress);
}

void LoadRun::Drive(LoadTime until, const std::function<bool()>& done) {
  LoadTime tick = LoadClock::now();
  for (LoadTime now = tick; now < until && !done(); now = LoadClock::now()) {
    SendArrivals(now);
    MendSessions(now);
    if (now >= tick) {
      ShowProgress(now);
      tick = After(now, kTick);
    }
    pool_.WaitUntil(std::min({until, tick, next_arrival_, NextMending()}));
  }
}

void LoadRun::Measure(Window& window) {
  window_ = &window;
  speed_since_ = start_;
  if (options_.open_loop()) {
    arrivals_.emplace(options_.rate, options_.seed);
    next_arrival_ = start_ + arrivals_->Next();
  }
  for (const auto& session : sessions_) {
    Begin(pool_.Add(*session, LoadClock::now()));
  }
  const auto over = [this] {
    return Interrupted() || pool_.counts().alive == 0;
  };
  Drive(window.begin(), over);
  const absl::Duration cpu_before = ProcessCpuTime();
  const LoadTime measured_from = LoadClock::now();
  Drive(window.end(), over);
  const LoadTime now = LoadClock::now();
  if (now < window.end()) {
    window.Close(now);
  } else {
    // What was to be sent at the very end, however late this thread is.
    SendArrivals(window.end() - LoadClock::duration(1));
  }
  const absl::Duration measured = Between(measured_from, now);
  if (measured > absl::ZeroDuration()) {
    result_.client_cpus =
        absl::FDivDuration(ProcessCpuTime() - cpu_before, measured);
  }
  result_.interrupted = Interrupted();
  next_arrival_ = LoadTime::max();
}

// Requests under way may come to their end; after an interruption they end at
// the next token.
void LoadRun::Drain(LoadTime now) {
  const auto quiet = [this] { return Quiet() || Interrupted(); };
  if (!Interrupted()) {
    pool_.Stop(/*cut=*/false);
    Drive(After(now, options_.drain), quiet);
  }
  pool_.Stop(/*cut=*/true);
  const absl::Duration grace =
      options_.rpc == LoadRpc::kStep ? kStepGrace : kGenerateGrace;
  Drive(After(LoadClock::now(), grace), [this] { return Quiet(); });
  if (!Quiet()) {
    result_.cancelled = options_.rpc == LoadRpc::kStep;
    for (const auto& carrier : carriers_) carrier->Cancel();
  }
  for (const auto& carrier : carriers_) carrier->Close();
  for (const auto& carrier : carriers_) carrier->WaitUntilClosed();
}

void LoadRun::Collect(const Window& window) {
  for (const auto& carrier : carriers_) result_.tally.Merge(carrier->tally());
  result_.window =
      std::max(Between(window.begin(), window.end()), absl::ZeroDuration());
  result_.sessions_left = pool_.counts().alive;
  result_.peak_backlog = pool_.peak_backlog();
  result_.unsent = pool_.unsent();
}

void LoadRun::DeleteSessions() {
  for (const auto& session : sessions_) store_.Delete(*session);
  result_.tally.Merge(store_.tally());
}

absl::StatusOr<LoadResult> LoadRun::Run() {
  result_.options = options_;
  result_.processors = UsableProcessors();
  const absl::Status suits = LookAtModel();
  if (!suits.ok()) return suits;
  const absl::Status created = CreateSessions();
  result_.sessions_created = sessions_.size();
  if (!created.ok()) {
    DeleteSessions();
    return created;
  }
  if (!sessions_.empty()) {
    start_ = LoadClock::now();
    const LoadTime begin = After(start_, options_.warmup);
    Window window(begin, options_.duration == absl::ZeroDuration()
                             ? LoadTime::max()
                             : After(begin, options_.duration));
    const LoadContext context{options_, window, pool_, call_.timeout};
    OpenCarriers(context);
    Measure(window);
    Drain(LoadClock::now());
    Collect(window);
    carriers_.clear();
  }
  DeleteSessions();
  return std::move(result_);
}

}  // namespace

absl::StatusOr<LoadResult> RunLoad(
    const Client& client, const CallOptions& call, const LoadOptions& options,
    const std::function<void(const LoadProgress&)>& on_progress) {
  return LoadRun(client, call, options, on_progress).Run();
}

}  // namespace steadystate::client
