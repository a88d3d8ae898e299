#include "server/rpc/text_thread.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/rpc/status.h"

namespace steadystate {

TextThread::TextThread() : thread_([this] { Loop(); }) {}

TextThread::~TextThread() {
  {
    const MutexLock lock(mutex_);
    draining_ = true;
    stopping_ = true;
    changed_.SignalOne();
  }
  thread_.join();
}

absl::Status TextThread::Run(Work work) {
  const MutexLock lock(mutex_);
  if (draining_) return DrainingError();
  if (waiting_.size() >= kMaxWaiting) {
    return MakeError(ErrorReason::kQueueFull,
                     absl::StrCat(kMaxWaiting,
                                  " long texts wait to be made tokens of: try "
                                  "again, or send token ids"),
                     {{"bounds", absl::StrCat(kMaxWaiting)}});
  }
  waiting_.push_back(std::move(work));
  changed_.SignalOne();
  return absl::OkStatus();
}

void TextThread::Drain() {
  const MutexLock lock(mutex_);
  draining_ = true;
}

void TextThread::Loop() {
  while (true) {
    Work work;
    absl::Status turn;
    {
      const MutexLock lock(mutex_);
      while (waiting_.empty() && !stopping_) changed_.Wait(mutex_);
      if (waiting_.empty()) return;
      work = std::move(waiting_.front());
      waiting_.pop_front();
      if (draining_) turn = DrainingError();
    }
    work(turn);
  }
}

}  // namespace steadystate
