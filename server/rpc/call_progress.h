#ifndef STEADYSTATE_SERVER_RPC_CALL_PROGRESS_H_
#define STEADYSTATE_SERVER_RPC_CALL_PROGRESS_H_

#include <atomic>
#include <cstdint>

namespace steadystate {

// The reads of a call that are being started, which keep it from being
// finished: the one thing about its progress that is noted without a lock,
// after gRPC has been told to read. Thread-safe.
class ReadStarts {
 public:
  // A read has been started. True if the call might have been finished but for
  // that: its owner asks again what may be done.
  bool Started() { return starts_.fetch_sub(kStart) == kStart + kAwaited; }

 private:
  friend class CallProgress;

  // Of starts_: each read that is being started, and that the end waits for
  // them.
  static constexpr uint32_t kAwaited = 1;
  static constexpr uint32_t kStart = 2;

  // These two are called under the owner's lock.
  void Begin() {
    // Threads that began others before may not have come to say Started.
    if (starts_.load() < kStart) {
      starts_.store(kStart);
    } else {
      starts_.fetch_add(kStart);
    }
  }
  // False: Started will be true for the last of them.
  bool NoneOrAwait() {
    return starts_.load() < kStart || starts_.fetch_or(kAwaited) < kStart;
  }

  std::atomic<uint32_t> starts_ = 0;
};

// What a streaming call may do next: read, write, finish. At most one read and
// one write are outstanding, and the call is finished once, at a time when
// nothing can come any more.
//
// Under one hold of its lock the owner notes here what has happened and asks
// what may be done now; the owner acts after releasing the lock.
// Knows neither gRPC nor locks. Thread-compatible.
class CallProgress {
 public:
  // `starts`: of its reads, which it outlives; null for a call that only
  // writes.
  explicit CallProgress(ReadStarts* starts) : starts_(starts) {}

  // Writes. True: the owner starts one now.
  bool BeginWrite(bool has_answers) {
    if (finished_ || writing_ || !has_answers) return false;
    writing_ = true;
    return true;
  }
  void WriteDone() { writing_ = false; }
  bool writing() const { return writing_; }

  // Reads.

  // May a read begin, as far as the call itself is concerned?
  bool MayRead() const {
    return reading_ == Reading::kIdle && !ending_ && !broken_ && !finished_;
  }
  // REQUIRES: MayRead(). The owner starts the read now, and then says so to
  // `starts`.
  void BeginRead() {
    reading_ = Reading::kOutstanding;
    starts_->Begin();
  }

  // A read has brought a message, which is the caller's from here on, to be
  // taken apart; until then the call may be finished in spite of the read.
  // False if it has been: nobody wants the message. Stays true for the same
  // message.
  bool TakeMessage() {
    if (finished_) return false;
    reading_ = Reading::kHandled;
    return true;
  }
  // The message that was read, or the lack of one, needs nothing any more.
  void MessageDone() { reading_ = Reading::kIdle; }
  // Steps of the message wait for room, in nobody's hands.
  void MessageWaits() {
    reading_ = broken_ ? Reading::kIdle : Reading::kWaiting;
  }
  bool message_waits() const { return reading_ == Reading::kWaiting; }

  // Nothing is to be read any more: the call ends when everything that was has
  // been answered.
  void End() { ending_ = true; }
  // Nobody hears the answers any more. A message that waits is not wanted.
  void Break() {
    broken_ = true;
    if (reading_ == Reading::kWaiting) reading_ = Reading::kIdle;
  }
  bool broken() const { return broken_; }

  // True, once: the owner finishes the call now. `busy`: something is still to
  // come from elsewhere, or to be written.
  bool BeginFinish(bool busy) {
    if (finished_ || busy || writing_ || !(ending_ || broken_) ||
        reading_ == Reading::kHandled || reading_ == Reading::kWaiting) {
      return false;
    }
    if (starts_ != nullptr && !starts_->NoneOrAwait()) return false;
    finished_ = true;
    return true;
  }
  bool finished() const { return finished_; }

 private:
  // Who has the message at the moment.
  enum class Reading : uint8_t {
    kIdle,         // nobody: the next read may begin
    kOutstanding,  // gRPC, at once or soon, or a thread that has not said so
                   // yet
    kHandled,      // a thread that takes it apart
    kWaiting,      // nobody: there is no room for the rest of it
  };

  ReadStarts* const starts_;
  Reading reading_ = Reading::kIdle;
  bool writing_ = false;
  bool ending_ = false;
  bool broken_ = false;
  bool finished_ = false;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_CALL_PROGRESS_H_
