#include "server/engine/scheduler.h"

#include <algorithm>
#include <tuple>

namespace steadystate {
namespace {

// A gap is so small a part of a batch's time,
constexpr size_t kGapShare = 16;
// is to bring so large a part of those awaited,
constexpr size_t kReturnShare = 8;
// and is not repeated more often.
constexpr size_t kMostGaps = 4;
// Below, the clock's and the scheduler's grain would make it much longer.
constexpr absl::Duration kLeastGap = absl::Microseconds(50);
// Above, a client that is not back is not about to be.
constexpr absl::Duration kMostGap = absl::Milliseconds(2);
constexpr size_t kMostSkipped = 63;

}  // namespace

void TurnQueue::Add(Request& request) {
  Client& client = *request.client;
  Client::Line& line = LineOf(client);
  request.place.previous = line.last;
  request.place.next = nullptr;
  if (line.first == nullptr) {
    line.first = &request;
    OpenLine(client);
  } else {
    line.last->place.next = &request;
  }
  line.last = &request;
}

void TurnQueue::TakeFront() {
  Client& client = *LineOf(*last_).next;
  Remove(*LineOf(client).first);
  if (LineOf(client).first != nullptr) last_ = &client;
}

void TurnQueue::Remove(Request& request) {
  Client::Line& line = LineOf(*request.client);
  Request* const previous = request.place.previous;
  Request* const next = request.place.next;
  (previous == nullptr ? line.first : previous->place.next) = next;
  (next == nullptr ? line.last : next->place.previous) = previous;
  if (line.first == nullptr) CloseLine(*request.client);
}

void TurnQueue::OpenLine(Client& client) {
  Client::Line& line = LineOf(client);
  if (empty()) {
    line.next = &client;
    line.previous = &client;
  } else {
    line.next = LineOf(*last_).next;
    line.previous = last_;
    LineOf(*line.next).previous = &client;
    LineOf(*last_).next = &client;
  }
  last_ = &client;
}

void TurnQueue::CloseLine(Client& client) {
  const Client::Line& line = LineOf(client);
  if (line.next == &client) {
    last_ = nullptr;
    return;
  }
  LineOf(*line.previous).next = line.next;
  LineOf(*line.next).previous = line.previous;
  if (last_ == &client) last_ = line.previous;
}

void Scheduler::Add(Request& request, size_t rows, BatchPhase phase) {
  request.place.rows = rows;
  request.place.phase = phase;
  QueueOf(phase).Add(request);
}

void Scheduler::Remove(Request& request) {
  QueueOf(request.place.phase).Remove(request);
}

// Steps of one message are answered together where they lie together.
void Scheduler::TakeBatch(BatchPhase phase, std::vector<Request*>& batch) {
  TurnQueue& queue = QueueOf(phase);
  taken_.clear();
  size_t rows = 0;
  while (!queue.empty() && rows + queue.front().place.rows <= max_rows_) {
    Request& request = queue.front();
    rows += request.place.rows;
    taken_.push_back({request.client->id, taken_.size(), &request});
    queue.TakeFront();
  }
  std::sort(taken_.begin(), taken_.end(), [](const Taken& a, const Taken& b) {
    return std::tie(a.client, a.turn) < std::tie(b.client, b.turn);
  });
  batch.clear();
  for (const Taken& taken : taken_) batch.push_back(taken.request);
}

void ReturnWindow::Open(absl::Duration time, size_t wanted) {
  gap_ = std::min(time / kGapShare, kMostGap);
  gaps_ = 0;
  there_ = 0;
  wanted_ = gap_ < kLeastGap ? 0 : wanted;
  if (wanted_ == 0 || skip_ == 0) return;
  --skip_;
  wanted_ = 0;
}

bool ReturnWindow::StaysOpen(size_t there) {
  if (wanted_ == 0) return false;
  const bool all = there >= wanted_;
  const bool some = (there - there_) * kReturnShare >= wanted_;
  if (gaps_ == 1) NoteFirstGap(all || some);
  if (all || gaps_ == kMostGaps || (gaps_ > 0 && !some)) return false;
  ++gaps_;
  there_ = there;
  return true;
}

void ReturnWindow::NoteFirstGap(bool worth_it) {
  misses_ = worth_it ? 0 : std::min(2 * misses_ + 1, kMostSkipped);
  skip_ = misses_;
}

}  // namespace steadystate
