#include "client/load/session_deleter.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace steadystate::client {
namespace {

// Calls under way at once.
constexpr size_t kWorkers = 8;
// From the beginning: sessions that are at work may come to rest.
constexpr std::chrono::seconds kRetries{5};
// How long a server may give no answer at all.
constexpr std::chrono::seconds kSilence{8};
constexpr std::chrono::seconds kSilenceIfInterrupted{2};
// One call, so that the limits above are kept to.
constexpr absl::Duration kCall = absl::Seconds(2);
constexpr std::chrono::milliseconds kPoll{5};

}  // namespace

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
  SessionStore store(client_, timeout_, nullptr);
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
