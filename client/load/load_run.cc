#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <future>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/load/carrier.h"
#include "client/load/load.h"
#include "client/load/request_plan.h"
#include "client/load/server_watch.h"
#include "client/load/session_care.h"
#include "client/load/session_pool.h"
#include "steadystate/error.h"

namespace steadystate::client {
namespace {

// Servers that do not say so have no bound.
uint64_t MaxStepTokens(const v1::Model& model) {
  return model.max_step_tokens() == 0 ? std::numeric_limits<uint64_t>::max()
                                      : model.max_step_tokens();
}

// Of one call about a session.
constexpr absl::Duration kCallTimeout = absl::Seconds(10);
// How often interruptions and progress are looked at.
constexpr absl::Duration kTick = absl::Milliseconds(50);
// How long answers that are on their way are waited for, once requests under
// way were told to end; then calls are cancelled.
constexpr absl::Duration kStepGrace = absl::Seconds(5);
constexpr absl::Duration kGenerateGrace = absl::Seconds(1);
// How long answers are waited for after an interruption, at most.
constexpr absl::Duration kInterruptedGrace = absl::Seconds(1);
// Sessions refused in a row, after which no more are asked for.
constexpr int kMaxRefusals = 3;
// Over which the speed that progress shows is taken.
constexpr absl::Duration kSpeedTime = absl::Milliseconds(500);

// Processor time that this process has used so far, all threads.
absl::Duration ProcessCpuTime() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return absl::DurationFromTimeval(usage.ru_utime) +
         absl::DurationFromTimeval(usage.ru_stime);
}

// Processors that this process may run on, at least 1.
size_t UsableProcessors() {
  cpu_set_t processors;
  CPU_ZERO(&processors);
  if (sched_getaffinity(0, sizeof(processors), &processors) != 0) return 1;
  return static_cast<size_t>(std::max(CPU_COUNT(&processors), 1));
}

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
  // `session_client`: for calls about sessions, so that requests that fill the
  // other connection do not keep them waiting.
  LoadRun(const Client& client, Client session_client, const CallOptions& call,
          const LoadOptions& options,
          const std::function<void(const LoadProgress&)>& on_progress)
      : client_(client),
        session_client_(std::move(session_client)),
        call_(call),
        timeout_(std::min(call.timeout, kCallTimeout)),
        options_(options),
        on_progress_(on_progress),
        source_(session_client_, options.durability),
        pool_(options.open_loop()) {}

  absl::StatusOr<LoadResult> Run();

 private:
  absl::Status LookAtModel();
  absl::StatusOr<std::vector<std::vector<int32_t>>> ReadPrompts() const;
  absl::Status MakePlan();
  absl::Status Connect();
  std::unique_ptr<Arrivals> MakeArrivals() const;
  absl::Status CreateSessions();
  absl::Status CreateEach(SessionStore& store);
  void OpenCarriers(const LoadContext& context);
  void Measure(Window& window);
  void Drain(SessionMender& mender);
  void Collect(const Window& window);
  void DeleteSessions();
  absl::Status AndUndeleted(const absl::Status& error) const;

  // Does what is due, until `until` or until `done` is true.
  void Drive(LoadTime until, const std::function<bool()>& done);
  void SendArrivals(LoadTime now);
  void AwaitNextArrival();
  void ShowProgress(LoadTime now);
  void Begin(const std::optional<Turn>& turn);
  bool Interrupted() const {
    return call_.canceller != nullptr && call_.canceller->cancelled();
  }
  // A server has said that it is about to shut down.
  bool GoingAway() const;
  bool Quiet() const;
  uint64_t CountUnheard() const;

  const Client& client_;
  std::vector<Client> more_clients_;  // connections beside that one
  const Client session_client_;
  const CallOptions& call_;
  const absl::Duration timeout_;  // of a call about a session
  const LoadOptions options_;
  const std::function<void(const LoadProgress&)>& on_progress_;
  SessionSource source_;  // of one thread at a time
  std::optional<RequestPlan> plan_;
  std::unique_ptr<ServerWatch> server_;  // nullptr: nobody looks
  std::vector<std::unique_ptr<LoadSession>> sessions_;
  SessionPool pool_;
  std::vector<std::unique_ptr<Carrier>> carriers_;
  std::atomic<uint64_t> created_ = 0;  // sessions
  LoadResult result_;

  // Of a run under way.
  LoadTime start_;
  const Window* window_ = nullptr;
  std::unique_ptr<Arrivals> arrivals_;  // nothing arrives without
  LoadTime next_arrival_ = LoadTime::max();
  LoadTime speed_since_;
  uint64_t speed_tokens_ = 0;
  double speed_ = 0;
};

absl::Status LoadRun::LookAtModel() {
  v1::GetModelRequest request;
  request.set_name("models/-");
  auto model = client_.GetModel(
      request, {.timeout = timeout_, .canceller = call_.canceller});
  if (!model.ok()) return model.status();
  result_.model = *std::move(model);
  return absl::OkStatus();
}

// StreamStep takes tokens only, and the lengths have to be known.
absl::StatusOr<std::vector<std::vector<int32_t>>> LoadRun::ReadPrompts() const {
  std::vector<std::vector<int32_t>> prompts;
  if (options_.prompts == nullptr) return prompts;
  for (const std::string& text : *options_.prompts) {
    if (Interrupted()) return absl::CancelledError("interrupted");
    v1::TokenizeRequest request;
    request.set_text(text);
    const auto tokens = client_.Tokenize(
        request, {.timeout = timeout_, .canceller = call_.canceller});
    if (!tokens.ok()) return tokens.status();
    const auto& ids = tokens->tokens();
    if (ids.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("prompt ", prompts.size() + 1, " has no tokens"));
    }
    prompts.emplace_back(ids.begin(), ids.end());
  }
  return prompts;
}

absl::Status LoadRun::MakePlan() {
  auto prompts = ReadPrompts();
  if (!prompts.ok()) return prompts.status();
  plan_.emplace(options_, *std::move(prompts));
  result_.mean_prompt_tokens = plan_->mean_prompt_tokens();
  const uint64_t cap = result_.model.context_cap();
  const uint64_t request_tokens = plan_->most_tokens();
  if (cap == 0 || request_tokens <= cap) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a request has ", request_tokens,
                   " tokens (prompt and --generate_tokens), more than the ",
                   cap, " that a session of this model can absorb"));
}

absl::Status LoadRun::Connect() {
  for (uint64_t i = 1; i < options_.connections; ++i) {
    auto client = client_.ConnectAgain();
    if (!client.ok()) return client.status();
    more_clients_.push_back(*std::move(client));
  }
  if (options_.metrics_url.empty()) return absl::OkStatus();
  auto server = ServerWatch::Open(options_.metrics_url);
  if (!server.ok()) return server.status();
  server_ = *std::move(server);
  return absl::OkStatus();
}

// Refusals are counted; what ends the run is that nobody answers.
absl::Status LoadRun::CreateEach(SessionStore& store) {
  int refusals = 0;  // in a row
  for (size_t i = 0; i < options_.sessions && refusals < kMaxRefusals; ++i) {
    if (Interrupted()) return absl::CancelledError("interrupted");
    auto session = std::make_unique<LoadSession>(i, *plan_, result_.model);
    const absl::Status created = store.Create(*session);
    if (created.ok()) {
      refusals = 0;
      sessions_.push_back(std::move(session));
      ++created_;
    } else if (!GetErrorDetails(created)) {
      return created;
    } else {
      ++refusals;
      result_.refusal = created;
    }
  }
  return absl::OkStatus();
}

absl::Status LoadRun::CreateSessions() {
  Canceller canceller;
  SessionStore store(session_client_, &source_, timeout_, &canceller);
  auto done = std::async(std::launch::async, [&] { return CreateEach(store); });
  while (done.wait_for(absl::ToChronoNanoseconds(kTick)) !=
             std::future_status::ready &&
         !Interrupted()) {
    LoadProgress progress;
    progress.created = created_;
    on_progress_(progress);
  }
  // The answer that is awaited names a session, which is to be deleted.
  if (done.wait_for(absl::ToChronoNanoseconds(kInterruptedGrace)) !=
      std::future_status::ready) {
    canceller.Cancel();
  }
  const absl::Status created = done.get();
  result_.tally.Merge(store.tally());
  result_.sessions_undeleted += store.unclaimed();
  result_.sessions_created = sessions_.size();
  return created;
}

void LoadRun::OpenCarriers(const LoadContext& context) {
  const bool steps = options_.rpc == LoadRpc::kStep;
  const uint64_t carriers = steps ? options_.streams : options_.connections;
  for (size_t i = 0; i < carriers; ++i) {
    const size_t connection = i % options_.connections;
    const Client& client =
        connection == 0 ? client_ : more_clients_[connection - 1];
    carriers_.push_back(steps ? MakeStepCarrier(client, context)
                              : MakeGenerateCarrier(client, context));
  }
}

std::unique_ptr<Arrivals> LoadRun::MakeArrivals() const {
  if (options_.trace != nullptr) return MakeTraceArrivals(*options_.trace);
  if (!options_.stages.empty()) {
    return MakeStageArrivals(options_.stages, options_.arrivals, options_.seed);
  }
  return MakeRateArrivals(options_.rate, options_.arrivals, options_.seed);
}

void LoadRun::Begin(const std::optional<Turn>& turn) {
  if (!turn) return;
  carriers_[turn->session->index() % carriers_.size()]->Begin(*turn);
}

bool LoadRun::GoingAway() const {
  return std::any_of(
      carriers_.begin(), carriers_.end(),
      [](const auto& carrier) { return carrier->progress().going_away; });
}

bool LoadRun::Quiet() const {
  const SessionPool::Counts counts = pool_.counts();
  return counts.alive == 0 || (counts.busy == 0 && counts.backlog == 0);
}

void LoadRun::SendArrivals(LoadTime now) {
  while (next_arrival_ <= now) {
    if (window_->Contains(next_arrival_)) {
      ++result_.arrivals;
      ++result_.tally.timeline.At(next_arrival_ - window_->begin()).due;
      result_.send_lag.Record(LoadClock::now() - next_arrival_);
    }
    Begin(pool_.Arrive(next_arrival_));
    AwaitNextArrival();
  }
}

void LoadRun::AwaitNextArrival() {
  const auto next = arrivals_->Next();
  next_arrival_ = next ? start_ + *next : LoadTime::max();
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
    if (now >= tick) {
      ShowProgress(now);
      tick = After(now, kTick);
    }
    pool_.WaitUntil(std::min({until, tick, next_arrival_}));
  }
}

void LoadRun::Measure(Window& window) {
  window_ = &window;
  speed_since_ = start_;
  if (options_.open_loop()) {
    arrivals_ = MakeArrivals();
    AwaitNextArrival();
  }
  for (const auto& session : sessions_) {
    Begin(pool_.Add(*session, LoadClock::now()));
  }
  const auto over = [this] {
    return Interrupted() || GoingAway() || pool_.counts().alive == 0;
  };
  Drive(window.begin(), over);
  if (server_ != nullptr) server_->Begin();
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
  if (server_ != nullptr) server_->End();
  result_.interrupted = Interrupted();
  result_.going_away = GoingAway();
  next_arrival_ = LoadTime::max();
}

// Requests under way may come to their end, for a time; then they are cut at
// the next token, or given up.
void LoadRun::Drain(SessionMender& mender) {
  pool_.Stop(/*cut=*/false);
  const LoadTime begin = LoadClock::now();
  Drive(After(begin, options_.drain), [this, begin] {
    return Quiet() || (Interrupted() &&
                       LoadClock::now() >= After(begin, kInterruptedGrace));
  });
  const std::deque<LoadTime> unsent = pool_.Stop(/*cut=*/true);
  const LoadTime end = LoadClock::now();
  for (const LoadTime intended : unsent) {
    result_.tally.CountUnanswered(intended, end, *window_);
  }
  mender.Stop();
  const absl::Duration grace =
      options_.rpc == LoadRpc::kStep ? kStepGrace : kGenerateGrace;
  Drive(After(LoadClock::now(), grace), [this] { return Quiet(); });
  // Streams that waited for the server to admit them are, for a moment, once
  // others are cancelled: what is answered then comes too late.
  result_.sessions_unheard = CountUnheard();
  if (!Quiet()) {
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
  if (server_ != nullptr) result_.server = server_->Take();
  result_.peak_calls = pool_.peak_busy();
  result_.peak_backlog = pool_.peak_backlog();
  result_.unsent = pool_.unsent();
}

uint64_t LoadRun::CountUnheard() const {
  return static_cast<uint64_t>(
      std::count_if(sessions_.begin(), sessions_.end(),
                    [](const auto& session) { return session->unheard(); }));
}

void LoadRun::DeleteSessions() {
  const std::function<bool()> interrupted = [this] { return Interrupted(); };
  SessionDeleter deleter(session_client_, timeout_, sessions_, interrupted);
  deleter.Run();
  result_.tally.Merge(deleter.tally());
  // Ephemeral ones end with the stream that made them.
  if (!source_.ephemeral()) {
    result_.sessions_undeleted += deleter.left_behind();
  }
}

// The same error, for people who have no report to read it in.
absl::Status LoadRun::AndUndeleted(const absl::Status& error) const {
  if (result_.sessions_undeleted == 0) return error;
  return absl::Status(
      error.code(),
      absl::StrCat(error.message(), "; ", result_.sessions_undeleted,
                   " sessions may still be on the server"));
}

absl::StatusOr<LoadResult> LoadRun::Run() {
  result_.options = options_;
  result_.processors = UsableProcessors();
  for (const auto& prepare :
       {&LoadRun::LookAtModel, &LoadRun::MakePlan, &LoadRun::Connect}) {
    const absl::Status prepared = (this->*prepare)();
    if (!prepared.ok()) return prepared;
  }
  const absl::Status created = CreateSessions();
  if (!created.ok()) {
    DeleteSessions();
    return AndUndeleted(created);
  }
  if (!sessions_.empty()) {
    start_ = LoadClock::now();
    const LoadTime begin = After(start_, options_.warmup);
    Window window(begin, options_.duration == absl::ZeroDuration()
                             ? LoadTime::max()
                             : After(begin, options_.duration));
    const LoadContext context{options_, window, pool_, call_.timeout,
                              MaxStepTokens(result_.model)};
    OpenCarriers(context);
    SessionMender mender(session_client_, source_, timeout_, pool_,
                         [this](const auto& turn) { Begin(turn); });
    Measure(window);
    Drain(mender);
    result_.tally.Merge(mender.store().tally());
    result_.sessions_undeleted += mender.store().unclaimed();
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
  auto session_client = client.ConnectAgain();
  if (!session_client.ok()) return session_client.status();
  return LoadRun(client, *std::move(session_client), call, options, on_progress)
      .Run();
}

}  // namespace steadystate::client
