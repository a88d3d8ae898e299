#include "server/rpc/text_threads.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"
#include "server/rpc/status.h"

namespace steadystate {

TextThreads::TextThreads() {
  for (Lane& lane : lanes_) {
    lane.thread = std::thread([this, &lane] { Loop(lane); });
  }
}

TextThreads::~TextThreads() {
  {
    const MutexLock lock(mutex_);
    draining_ = true;
    stopping_ = true;
    for (Lane& lane : lanes_) lane.changed.SignalOne();
  }
  for (Lane& lane : lanes_) lane.thread.join();
}

absl::StatusOr<TextTicket> TextThreads::Run(ClientId client, size_t bytes,
                                            Work work) {
  const MutexLock lock(mutex_);
  if (draining_) return DrainingError();
  STEADYSTATE_RETURN_IF_ERROR(CheckRoom(client, bytes));
  waiting_.Take(client, 1);
  waiting_bytes_.Take(client, bytes);
  Lane& lane = lanes_[bytes > kLongTextBytes ? 1 : 0];
  Jobs& jobs = lane.jobs[client];
  if (jobs.empty()) lane.turns.push_back(client);
  jobs.push_back(
      {.ticket = ++last_ticket_, .bytes = bytes, .work = std::move(work)});
  lane.changed.SignalOne();
  return last_ticket_;
}

// Where nothing waits, a text of any length may.
absl::Status TextThreads::CheckRoom(ClientId client, size_t bytes) const {
  if (!waiting_.HasRoom(client, 1)) {
    return MakeError(
        ErrorReason::kQueueFull,
        absl::StrCat(waiting_.held(), " long texts wait, ",
                     waiting_.HeldBy(client),
                     " of them yours: that is your share of ", kMaxWaiting,
                     "; try again, or send token ids"),
        {{"bounds", absl::StrCat(kMaxWaiting)}});
  }
  if (waiting_.held() > 0 && !waiting_bytes_.HasRoom(client, bytes)) {
    return MakeError(
        ErrorReason::kQueueFull,
        absl::StrCat("long texts of ", waiting_bytes_.held(), " bytes wait, ",
                     waiting_bytes_.HeldBy(client), " of them yours, and of ",
                     bytes, " more are beyond your share of ", kMaxWaitingBytes,
                     " bytes; try again, or send token ids"),
        {{"bounds", absl::StrCat(kMaxWaitingBytes)}});
  }
  return absl::OkStatus();
}

void TextThreads::Forget(TextTicket ticket) {
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

void TextThreads::Drain() {
  const MutexLock lock(mutex_);
  draining_ = true;
}

TextThreads::Job TextThreads::TakeNext(Lane& lane) {
  const ClientId client = lane.turns.front();
  std::rotate(lane.turns.begin(), lane.turns.begin() + 1, lane.turns.end());
  return Remove(lane, client, lane.jobs.find(client)->second.begin());
}

TextThreads::Job TextThreads::TakeOut(Lane& lane, TextTicket ticket) {
  for (auto& [client, jobs] : lane.jobs) {
    const auto found =
        std::find_if(jobs.begin(), jobs.end(),
                     [ticket](const Job& job) { return job.ticket == ticket; });
    if (found != jobs.end()) return Remove(lane, client, found);
  }
  return {};
}

TextThreads::Job TextThreads::Remove(Lane& lane, ClientId client,
                                     Jobs::iterator place) {
  Job job = std::move(*place);
  waiting_.GiveBack(client, 1);
  waiting_bytes_.GiveBack(client, job.bytes);
  const auto jobs = lane.jobs.find(client);
  jobs->second.erase(place);
  if (jobs->second.empty()) {
    lane.jobs.erase(jobs);
    lane.turns.erase(std::find(lane.turns.begin(), lane.turns.end(), client));
  }
  return job;
}

void TextThreads::Loop(Lane& lane) {
  while (true) {
    Job job;
    absl::Status turn;
    {
      const MutexLock lock(mutex_);
      while (lane.turns.empty() && !stopping_) lane.changed.Wait(mutex_);
      if (lane.turns.empty()) return;
      job = TakeNext(lane);
      if (draining_) turn = DrainingError();
    }
    job.work(turn);
  }
}

}  // namespace steadystate
