#include "server/rpc/turn_threads.h"

#include <pthread.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpc/support/time.h"
#include "grpcpp/alarm.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"
#include "server/rpc/convert.h"

namespace steadystate {

TurnThreads::TurnThreads(const TurnBounds& bounds, Report report)
    : bounds_(bounds),
      report_(std::move(report)),
      lanes_(bounds.long_bytes == SIZE_MAX ? 1 : 2),
      waiting_(bounds.waiting, bounds.own_waiting, bounds.parts),
      waiting_bytes_(bounds.bytes, bounds.own_bytes, bounds.parts) {
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    threads_.emplace_back([this, lane] { Loop(lane); });
  }
}

TurnThreads::~TurnThreads() {
  {
    const MutexLock lock(mutex_);
    draining_ = true;
    stopping_ = true;
    for (Lane& lane : lanes_) lane.changed.SignalOne();
  }
  for (std::thread& thread : threads_) thread.join();
}

absl::StatusOr<TurnTicket> TurnThreads::Run(ClientId client, size_t bytes,
                                            Work work) {
  const MutexLock lock(mutex_);
  if (draining_) return DrainingError();
  STEADYSTATE_RETURN_IF_ERROR(CheckRoom(client, bytes));
  waiting_.Take(client, 1);
  if (report_ != nullptr) report_(waiting_.held());
  waiting_bytes_.Take(client, bytes);
  Lane& lane = lanes_[bytes > bounds_.long_bytes ? 1 : 0];
  Jobs& jobs = lane.jobs[client];
  if (jobs.empty()) lane.turns.push_back(client);
  jobs.push_back(
      {.ticket = ++last_ticket_, .bytes = bytes, .work = std::move(work)});
  lane.changed.SignalOne();
  return last_ticket_;
}

// Where nothing waits, work of any length may.
absl::Status TurnThreads::CheckRoom(ClientId client, size_t bytes) const {
  if (!waiting_.HasRoom(client, 1)) {
    return MakeError(ErrorReason::kQueueFull,
                     absl::StrCat(waiting_.held(), " ", bounds_.what, " wait, ",
                                  waiting_.HeldBy(client),
                                  " of them yours: that is your share of ",
                                  bounds_.waiting, "; ", bounds_.instead),
                     {{"bounds", absl::StrCat(bounds_.waiting)}});
  }
  if (waiting_.held() > 0 && !waiting_bytes_.HasRoom(client, bytes)) {
    return MakeError(
        ErrorReason::kQueueFull,
        absl::StrCat(bounds_.what, " of ", waiting_bytes_.held(),
                     " bytes wait, ", waiting_bytes_.HeldBy(client),
                     " of them yours, and of ", bytes,
                     " more are beyond your share of ", bounds_.bytes,
                     " bytes; ", bounds_.instead),
        {{"bounds", absl::StrCat(bounds_.bytes)}});
  }
  return absl::OkStatus();
}

void TurnThreads::Forget(TurnTicket ticket) {
  Job job;
  {
    const MutexLock lock(mutex_);
    for (Lane& lane : lanes_) {
      if (job.work == nullptr) job = TakeOut(lane, ticket);
    }
  }
  if (job.work != nullptr)
    job.work(absl::CancelledError("the client has gone"));
}

void TurnThreads::Drain() {
  const MutexLock lock(mutex_);
  draining_ = true;
}

TurnThreads::Job TurnThreads::TakeNext(Lane& lane) {
  const ClientId client = lane.turns.front();
  std::rotate(lane.turns.begin(), lane.turns.begin() + 1, lane.turns.end());
  return Remove(lane, client, lane.jobs.find(client)->second.begin());
}

TurnThreads::Job TurnThreads::TakeOut(Lane& lane, TurnTicket ticket) {
  for (auto& [client, jobs] : lane.jobs) {
    const auto found =
        std::find_if(jobs.begin(), jobs.end(),
                     [ticket](const Job& job) { return job.ticket == ticket; });
    if (found != jobs.end()) return Remove(lane, client, found);
  }
  return {};
}

TurnThreads::Job TurnThreads::Remove(Lane& lane, ClientId client,
                                     const Jobs::iterator& place) {
  Job job = std::move(*place);
  waiting_.GiveBack(client, 1);
  if (report_ != nullptr) report_(waiting_.held());
  waiting_bytes_.GiveBack(client, job.bytes);
  const auto jobs = lane.jobs.find(client);
  jobs->second.erase(place);
  if (jobs->second.empty()) {
    lane.jobs.erase(jobs);
    lane.turns.erase(std::find(lane.turns.begin(), lane.turns.end(), client));
  }
  return job;
}

void TurnThreads::Loop(size_t lane_index) {
  pthread_setname_np(pthread_self(), bounds_.name);
  while (true) {
    Job job;
    absl::Status turn;
    {
      const MutexLock lock(mutex_);
      Lane& lane = lanes_[lane_index];
      while (lane.turns.empty() && !stopping_) lane.changed.Wait(mutex_);
      if (lane.turns.empty()) return;
      job = TakeNext(lane);
      if (draining_) turn = DrainingError();
    }
    job.work(turn);
  }
}

void RunSoon(std::function<void()> work) {
  // It has to live until it has gone off, and is let go of then.
  const auto alarm =
      std::make_shared<std::unique_ptr<grpc::Alarm>>(new grpc::Alarm);
  (*alarm)->Set(gpr_now(GPR_CLOCK_MONOTONIC),
                [alarm, work = std::move(work)](bool) {
                  const std::unique_ptr<grpc::Alarm> own = std::move(*alarm);
                  work();
                });
}

}  // namespace steadystate
