#include "client/load/session_mender.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace steadystate::client {
namespace {

// Requests that failed may go on for a while on the server. For one session.
constexpr std::chrono::seconds kPatience{5};
constexpr std::chrono::milliseconds kPoll{5};
// Between looks at what is due; nothing hangs on it.
constexpr std::chrono::hours kLongest{1};
// For a call that is under way at the end: without its answer, a session that
// it made would be left behind.
constexpr std::chrono::seconds kGrace{1};

}  // namespace

SessionMender::SessionMender(const Client& client, absl::Duration timeout,
                             SessionPool& pool, BeginFunction begin)
    : pool_(pool),
      begin_(std::move(begin)),
      store_(client, timeout, &canceller_),
      done_(std::async(std::launch::async, [this] { Run(); })) {}

void SessionMender::Stop() {
  pool_.StopMending();
  if (done_.wait_for(kGrace) != std::future_status::ready) canceller_.Cancel();
  done_.wait();
}

LoadTime SessionMender::NextDue() const {
  LoadTime next = LoadClock::now() + kLongest;
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

}  // namespace steadystate::client
