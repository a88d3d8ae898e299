#ifndef STEADYSTATE_TESTS_TESTING_SLOW_STORE_H_
#define STEADYSTATE_TESTS_TESTING_SLOW_STORE_H_

#include <atomic>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tests/testing/manual_clock.h"
#include "tests/testing/memory_store.h"

namespace steadystate {

// A store in which each write of a session, and each sync, takes its time by a
// clock, once there is one. Thread-safe.
class SlowStore final : public MemoryStore {
 public:
  SlowStore(absl::Duration put, absl::Duration sync) : put_(put), sync_(sync) {}

  // Outlives what the store is used for.
  void UseClock(ManualClock& clock) { clock_ = &clock; }

  absl::Status Put(const StoredSession& session, absl::string_view snapshot,
                   absl::string_view tail) override {
    Pass(put_);
    return MemoryStore::Put(session, snapshot, tail);
  }
  absl::Status Try(absl::string_view snapshot) override {
    Pass(put_);
    Pass(sync_);
    ++tries_;
    bytes_ += snapshot.size();
    return MemoryStore::Try(snapshot);
  }
  absl::Status Sync() override {
    Pass(sync_);
    return MemoryStore::Sync();
  }

  // What it was tried with.
  size_t bytes() const { return bytes_; }
  size_t tries() const { return tries_; }

 private:
  void Pass(absl::Duration time) {
    if (ManualClock* const clock = clock_) clock->Advance(time);
  }

  std::atomic<ManualClock*> clock_ = nullptr;
  const absl::Duration put_;
  const absl::Duration sync_;
  std::atomic<size_t> bytes_ = 0;
  std::atomic<size_t> tries_ = 0;
};

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_TESTING_SLOW_STORE_H_
