#include "server/session/session_events.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/parking.h"

namespace steadystate {
namespace {

// Events that are looked at under one lock: a few microseconds of work.
constexpr size_t kLooksAtOnce = 32;

// Of a cursor: the process, and the number.
constexpr size_t kHexDigits = 16;

bool IsHex(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c)) ||
           (c >= 'a' && c <= 'f');
  });
}

absl::Status Expired(absl::string_view cursor, absl::string_view why) {
  return MakeError(
      ErrorReason::kCursorExpired,
      absl::StrCat("not all that has happened since the cursor '", cursor,
                   "' is remembered: ", why,
                   "; watch without a cursor, and list the sessions"),
      {{"cursor", std::string(cursor)}});
}

}  // namespace

SessionEvents::SessionEvents(size_t capacity)
    : capacity_(capacity), run_(NewSessionUid()[0]) {}

void SessionEvents::Add(SessionEvent event) {
  const MutexLock lock(mutex_);
  if (events_.size() == capacity_) events_.pop_front();
  events_.push_back(std::move(event));
  ++next_;
  for (Listener* const listener : listeners_) listener->OnEvent();
}

void SessionEvents::AddListener(Listener& listener) {
  const MutexLock lock(mutex_);
  listeners_.push_back(&listener);
}

void SessionEvents::RemoveListener(Listener& listener) {
  const MutexLock lock(mutex_);
  std::erase(listeners_, &listener);
}

uint64_t SessionEvents::next() const {
  const MutexLock lock(mutex_);
  return next_;
}

absl::StatusOr<SessionEvents::Page> SessionEvents::Read(const Filter& filter,
                                                        uint64_t from,
                                                        size_t most,
                                                        size_t looks) const {
  Page page = {.events = {}, .next = from};
  Step step = Step::kMore;
  while (step == Step::kMore && looks > 0 && page.events.size() < most) {
    const size_t now = std::min(looks, kLooksAtOnce);
    step = ReadSome(filter, most, now, page);
    looks -= now;
    MayPark("SessionEvents::Read");
  }
  if (step == Step::kForgotten) {
    return Expired(
        CursorOf(page.next),
        absl::StrCat("more than ", capacity_, " events have come after it"));
  }
  page.more = step == Step::kMore;
  return page;
}

// Others may add events between two calls.
SessionEvents::Step SessionEvents::ReadSome(const Filter& filter, size_t most,
                                            size_t looks, Page& page) const {
  const MutexLock lock(mutex_);
  const uint64_t first = next_ - events_.size();
  if (page.next < first) return Step::kForgotten;
  while (looks-- > 0 && page.next < next_ && page.events.size() < most) {
    const SessionEvent& event = events_[page.next++ - first];
    if (event.owner == filter.owner &&
        (filter.id.empty() || event.id == filter.id)) {
      page.events.push_back(event);
    }
  }
  return page.next == next_ ? Step::kEnd : Step::kMore;
}

std::string SessionEvents::CursorOf(uint64_t number) const {
  return absl::StrCat(absl::Hex(run_, absl::kZeroPad16),
                      absl::Hex(number, absl::kZeroPad16));
}

absl::StatusOr<uint64_t> SessionEvents::Parse(absl::string_view cursor) const {
  uint64_t run = 0;
  uint64_t number = 0;
  const bool is_one = cursor.size() == 2 * kHexDigits && IsHex(cursor) &&
                      absl::SimpleHexAtoi(cursor.substr(0, kHexDigits), &run) &&
                      absl::SimpleHexAtoi(cursor.substr(kHexDigits), &number);
  if (is_one && run != run_) {
    return Expired(cursor, "the server has been started since");
  }
  if (!is_one || number > next()) {
    return OutOfBounds("cursor", cursor, "empty, or one that the server gave");
  }
  return number;
}

}  // namespace steadystate
