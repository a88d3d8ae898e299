#include "server/session/job_queue.h"

#include <algorithm>

namespace steadystate {

std::deque<Job>& JobQueue::Line(const Job& job) {
  std::deque<Job>& line = lines_[job.client];
  if (line.empty()) turns_.push_back(job.client);
  return line;
}

Job JobQueue::TakeNext() {
  const uint64_t client = turns_.front();
  turns_.pop_front();
  const auto line = lines_.find(client);
  Job next = std::move(line->second.front());
  line->second.pop_front();
  if (line->second.empty()) {
    lines_.erase(line);
  } else {
    turns_.push_back(client);
  }
  return next;
}

std::optional<Job> JobQueue::Take(const Session& session) {
  for (auto& [of, line] : lines_) {
    const auto job = std::find_if(
        line.begin(), line.end(),
        [&](const Job& other) { return other.session == &session; });
    if (job == line.end()) continue;
    std::optional<Job> taken = std::move(*job);
    line.erase(job);
    const uint64_t client = of;
    if (line.empty()) {
      turns_.erase(std::find(turns_.begin(), turns_.end(), client));
      lines_.erase(client);
    }
    return taken;
  }
  return std::nullopt;
}

Session* JobQueue::Find(absl::FunctionRef<bool(const Job&)> is) const {
  for (const auto& [client, line] : lines_) {
    for (const Job& job : line) {
      if (is(job)) return job.session;
    }
  }
  return nullptr;
}

}  // namespace steadystate
