#include "client/load/session_care.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "steadystate/error.h"

namespace steadystate::client {
namespace {

// How often it is looked whether somebody wants to end a wait.
constexpr std::chrono::milliseconds kLookForCancel{50};

// Of names of sessions that no other run has, and that people see.
std::string RandomPrefix() {
  std::random_device random;
  const uint64_t bits = (uint64_t{random()} << 32) + random();
  return absl::StrCat("sessions/load-", absl::Hex(bits, absl::kZeroPad16), "-");
}

// Between two questions about a session that is still at work.
constexpr std::chrono::milliseconds kPoll{5};

// Requests that failed may go on for a while on the server. For one session.
constexpr std::chrono::seconds kPatience{5};
// Between looks at what is due; nothing hangs on it.
constexpr std::chrono::hours kLongestPause{1};
// For a call that is under way at the end: without its answer, a session that
// it made would be left behind.
constexpr std::chrono::seconds kGrace{1};

// Calls under way at once.
constexpr size_t kWorkers = 8;
// From the beginning: sessions that are at work may come to rest.
constexpr std::chrono::seconds kRetries{5};
// How long a server may give no answer at all.
constexpr std::chrono::seconds kSilence{8};
constexpr std::chrono::seconds kSilenceIfInterrupted{2};
// One call, so that the limits above are kept to.
constexpr absl::Duration kCall = absl::Seconds(2);

}  // namespace

SessionSource::SessionSource(const Client& client,
                             std::optional<v1::Session::Durability> durability)
    : client_(client), durability_(durability), prefix_(RandomPrefix()) {
  if (!ephemeral()) return;
  StepStreamOptions options;
  options.on_answers = [this](absl::Span<StepAnswer> answers) {
    const MutexLock lock(mutex_);
    answer_tag_ = answers.back().tag;
    answer_ = answers.back().step.status();
    answered_.SignalAll();
  };
  options.on_end = [this](const absl::Status& end) {
    const MutexLock lock(mutex_);
    end_ = end.ok() ? absl::UnavailableError("the stream has ended") : end;
    answered_.SignalAll();
  };
  stream_ = StepStream::Open(client, options);
}

SessionSource::~SessionSource() {
  if (stream_ == nullptr) return;
  stream_->Close();
  const LoadTime give_up = LoadClock::now() + kGrace;
  const MutexLock lock(mutex_);
  while (!end_.has_value() && answered_.WaitUntil(mutex_, give_up)) {
  }
}

absl::StatusOr<std::string> SessionSource::Make(const CallOptions& options) {
  if (durability_.has_value()) {
    v1::CreateSessionRequest request;
    v1::Session& session = *request.mutable_session();
    session.set_durability(*durability_);
    session.mutable_ttl()->set_seconds(absl::ToInt64Seconds(kTtl));
    const auto made = client_.CreateSession(request, options);
    if (!made.ok()) return made.status();
    return made->name();
  }
  const uint64_t tag = ++made_;
  std::string name = absl::StrCat(prefix_, tag);
  const size_t number = stream_->AddSession(name, 0);
  // What keeps it from being sent, the stream's end tells.
  stream_->Send(number, {.ephemeral = true}, tag).IgnoreError();
  const absl::Status made = Await(tag, options);
  stream_->RemoveSession(number).IgnoreError();
  if (!made.ok()) return made;
  return name;
}

absl::Status SessionSource::Await(uint64_t tag, const CallOptions& options) {
  const LoadTime end =
      options.timeout == absl::InfiniteDuration()
          ? LoadTime::max()
          : LoadClock::now() + absl::ToChronoNanoseconds(options.timeout);
  const MutexLock lock(mutex_);
  while (answer_tag_ != tag) {
    const LoadTime now = LoadClock::now();
    if (end_.has_value()) return *end_;
    if (options.canceller != nullptr && options.canceller->cancelled()) {
      return absl::CancelledError("interrupted");
    }
    if (now >= end) {
      return absl::DeadlineExceededError("no answer about a session in time");
    }
    answered_.WaitUntil(mutex_, std::min(end, now + kLookForCancel));
  }
  return answer_;
}

SessionStore::SessionStore(const Client& client, SessionSource* source,
                           absl::Duration timeout, Canceller* canceller)
    : client_(client),
      source_(source),
      timeout_(timeout),
      canceller_(canceller) {}

SessionStore::Outcome SessionStore::Count(const absl::Status& status) {
  if (status.ok()) return Outcome::kDone;
  if (canceller_ != nullptr && canceller_->cancelled() &&
      absl::IsCancelled(status) && !GetErrorDetails(status)) {
    // The tester's own doing says nothing about the server.
    ++tally_.given_up;
    return Outcome::kSilent;
  }
  tally_.CountError(status);
  if (GetErrorDetails(status)) return Outcome::kNotYet;
  return absl::IsUnavailable(status) ? Outcome::kNobody : Outcome::kSilent;
}

absl::Status SessionStore::Create(LoadSession& session) {
  const auto made = source_->Make(Options());
  if (made.ok()) {
    session.Replace(*made);
  } else if (!source_->ephemeral() && !GetErrorDetails(made.status())) {
    ++unclaimed_;
  }
  Count(made.status());
  return made.status();
}

SessionStore::Outcome SessionStore::Settle(LoadSession& session) {
  if (session.doubt() == LoadSession::Doubt::kNone) return Outcome::kDone;
  if (session.exists()) {
    v1::GetSessionRequest request;
    request.set_name(session.name());
    const auto found = client_.GetSession(request, Options());
    const Outcome outcome = Count(found.status());
    if (found.ok() && found->state() == v1::Session::IDLE) {
      session.Reconcile(found->position(), tally_);
      return Outcome::kDone;
    }
    if (found.ok()) return Outcome::kNotYet;
    if (!absl::IsNotFound(found.status())) return outcome;
    session.Gone();
  }
  session.GiveUpReconciling(tally_);
  return Outcome::kDone;
}

SessionStore::Outcome SessionStore::Delete(LoadSession& session) {
  session.GiveUpReconciling(tally_);
  if (!session.exists()) return Outcome::kDone;
  v1::DeleteSessionRequest request;
  request.set_name(session.name());
  const absl::Status status = client_.DeleteSession(request, Options());
  const Outcome outcome = Count(status);
  if (!status.ok() && !absl::IsNotFound(status)) return outcome;
  session.Gone();
  return Outcome::kDone;
}

SessionMender::SessionMender(const Client& client, SessionSource& source,
                             absl::Duration timeout, SessionPool& pool,
                             BeginFunction begin)
    : pool_(pool),
      begin_(std::move(begin)),
      store_(client, &source, timeout, &canceller_),
      done_(std::async(std::launch::async, [this] { Run(); })) {}

void SessionMender::Stop() {
  pool_.StopMending();
  if (done_.wait_for(kGrace) != std::future_status::ready) canceller_.Cancel();
  done_.wait();
}

LoadTime SessionMender::NextDue() const {
  LoadTime next = LoadClock::now() + kLongestPause;
  for (const Patient& patient : patients_) next = std::min(next, patient.due);
  return next;
}

void SessionMender::Run() {
  while (pool_.WaitForBroken(NextDue())) {
    const LoadTime now = LoadClock::now();
    while (LoadSession* const session = pool_.TakeBroken()) {
      const LoadTime due =
          now + absl::ToChronoNanoseconds(session->mending().rest);
      patients_.push_back({session, due, due + kPatience});
    }
    const auto is_later = [now](const Patient& patient) {
      return patient.due > now;
    };
    const auto due =
        std::partition(patients_.begin(), patients_.end(), is_later);
    const std::vector<Patient> attended(due, patients_.end());
    patients_.erase(due, patients_.end());
    for (const Patient& patient : attended) Attend(patient);
  }
}

void SessionMender::Attend(Patient patient) {
  LoadSession& session = *patient.session;
  const bool settled = store_.Settle(session) == SessionStore::Outcome::kDone;
  if (!settled && LoadClock::now() < patient.give_up) {
    patient.due = LoadClock::now() + kPoll;
    patients_.push_back(patient);
    return;
  }
  const bool replace =
      !settled || !session.exists() || session.mending().replace;
  if (!replace || (store_.Delete(session) == SessionStore::Outcome::kDone &&
                   store_.Create(session).ok())) {
    begin_(pool_.GiveBack(session, LoadClock::now()));
  } else if (!canceller_.cancelled()) {
    pool_.Retire();
  }
}

SessionDeleter::SessionDeleter(const Client& client, absl::Duration timeout,
                               const Sessions& sessions,
                               const std::function<bool()>& interrupted)
    : client_(client),
      timeout_(std::min(timeout, kCall)),
      sessions_(sessions),
      interrupted_(interrupted) {}

void SessionDeleter::Run() {
  last_answer_ = LoadClock::now();
  retry_until_ = last_answer_.load() + kRetries;
  std::vector<std::thread> workers;
  const size_t count = std::min(kWorkers, sessions_.size());
  for (size_t i = 0; i < count; ++i) workers.emplace_back([this] { Work(); });
  for (std::thread& worker : workers) worker.join();
}

bool SessionDeleter::Patient() const {
  const auto silence = interrupted_() ? kSilenceIfInterrupted : kSilence;
  return LoadClock::now() < last_answer_.load() + silence;
}

void SessionDeleter::Insist(const std::function<SessionStore::Outcome()>& ask) {
  using Outcome = SessionStore::Outcome;
  while (Patient()) {
    const Outcome outcome = ask();
    const LoadTime now = LoadClock::now();
    if (outcome == Outcome::kDone || outcome == Outcome::kNotYet) {
      last_answer_ = now;
    }
    if (outcome == Outcome::kDone || outcome == Outcome::kNobody) return;
    if (now >= retry_until_) return;
    const MutexLock lock(mutex_);
    progress_.WaitUntil(mutex_, LoadClock::now() + kPoll);
  }
}

void SessionDeleter::Work() {
  SessionStore store(client_, nullptr, timeout_, nullptr);
  for (size_t i = next_++; i < sessions_.size(); i = next_++) {
    LoadSession& session = *sessions_[i];
    Insist([&] { return store.Settle(session); });
    Insist([&] { return store.Delete(session); });
  }
  const MutexLock lock(mutex_);
  tally_.Merge(store.tally());
  progress_.SignalAll();
}

Tally SessionDeleter::tally() const {
  const MutexLock lock(mutex_);
  return tally_;
}

uint64_t SessionDeleter::left_behind() const {
  return static_cast<uint64_t>(
      std::count_if(sessions_.begin(), sessions_.end(),
                    [](const auto& session) { return session->exists(); }));
}

}  // namespace steadystate::client
