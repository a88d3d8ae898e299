#include "server/engine/turn_queue.h"

namespace steadystate {

void TurnQueue::Add(const Segment& segment) {
  Line& line = LineOf(segment.client);
  const size_t place = waiting_.Put({.segment = segment});
  (line.first == kNone ? line.first : waiting_[line.last].next) = place;
  line.last = place;
}

void TurnQueue::TakeFront() {
  const size_t first = lines_[last_].next;
  DropFront();
  const bool stays = !empty() && lines_[last_].next == first;
  if (stays) last_ = first;
}

void TurnQueue::DropFront() {
  Line& line = lines_[lines_[last_].next];
  const size_t place = line.first;
  line.first = waiting_[place].next;
  waiting_.Free(place);
  if (line.first == kNone) CloseFirstLine();
}

// Segments of one message come one after the other.
TurnQueue::Line& TurnQueue::LineOf(ClientId client) {
  if (!empty() && lines_[last_].client == client) return lines_[last_];
  const auto [line, is_new] = line_of_.try_emplace(client, kNone);
  if (is_new) line->second = OpenLine(client);
  return lines_[line->second];
}

size_t TurnQueue::OpenLine(ClientId client) {
  const size_t place = lines_.Put({.client = client});
  if (empty()) {
    lines_[place].next = place;
  } else {
    lines_[place].next = lines_[last_].next;
    lines_[last_].next = place;
  }
  last_ = place;
  return place;
}

void TurnQueue::CloseFirstLine() {
  const size_t place = lines_[last_].next;
  line_of_.erase(lines_[place].client);
  if (place == last_) {
    last_ = kNone;
  } else {
    lines_[last_].next = lines_[place].next;
  }
  lines_.Free(place);
}

}  // namespace steadystate
