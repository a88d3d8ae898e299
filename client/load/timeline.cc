#include "client/load/timeline.h"

#include <algorithm>

namespace steadystate::client {

void TimelineSlot::Merge(const TimelineSlot& other) {
  drawn_tokens += other.drawn_tokens;
  due += other.due;
  completed += other.completed;
  failed += other.failed;
  time_to_first_token.Merge(other.time_to_first_token);
  inter_token.Merge(other.inter_token);
}

void Timeline::Coarsen() {
  for (size_t i = 0; i < slots_.size(); i += 2) {
    TimelineSlot slot = slots_[i];
    if (i + 1 < slots_.size()) slot.Merge(slots_[i + 1]);
    slots_[i / 2] = slot;
  }
  slots_.resize((slots_.size() + 1) / 2);
  slot_length_ *= 2;
}

TimelineSlot& Timeline::At(Nanoseconds since_begin) {
  const Nanoseconds since = std::max(since_begin, Nanoseconds(0));
  while (since / slot_length_ >= static_cast<Nanoseconds::rep>(kMaxSlots)) {
    Coarsen();
  }
  const auto index = static_cast<size_t>(since / slot_length_);
  if (index >= slots_.size()) slots_.resize(index + 1);
  return slots_[index];
}

void Timeline::Merge(const Timeline& other) {
  if (other.slots_.empty()) return;
  Timeline same = other;
  while (slot_length_ < same.slot_length_) Coarsen();
  while (same.slot_length_ < slot_length_) same.Coarsen();
  if (slots_.size() < same.slots_.size()) slots_.resize(same.slots_.size());
  for (size_t i = 0; i < same.slots_.size(); ++i) {
    slots_[i].Merge(same.slots_[i]);
  }
}

}  // namespace steadystate::client
