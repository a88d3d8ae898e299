// Every line that breaks a rule says so, and what the compiler is to say.
#include "absl/base/thread_annotations.h"
#ifdef STEADYSTATE_LOCKS_OF_CLIENT
#include "client/mutex.h"
#else
#include "server/base/mutex.h"
#endif

namespace steadystate {
namespace {

#ifdef STEADYSTATE_LOCKS_OF_CLIENT
using client::CondVar;
using client::Mutex;
using client::MutexLock;
#endif

class Counter {
 public:
  void Right() ABSL_LOCKS_EXCLUDED(mutex_) {
    const MutexLock lock(mutex_);
    while (count_ == 0) changed_.Wait(mutex_);
    Increment();
  }

  int ReadsWithout() const {
    return count_;  // expected-error {{reading variable 'count_' requires}}
  }

  void WritesWithout() {
    count_ = 1;  // expected-error {{writing variable 'count_' requires}}
  }

  void WritesTooLate() {
    { const MutexLock lock(mutex_); }
    ++count_;  // expected-error {{writing variable 'count_' requires}}
  }

  void WritesUnderAnother(Mutex& mutex) {
    const MutexLock lock(mutex);
    ++count_;  // expected-error {{writing variable 'count_' requires}}
  }

  void CallsWithout() {
    Increment();  // expected-error {{calling function 'Increment' requires}}
  }

  void WaitsWithout() {
    changed_.Wait(mutex_);  // expected-error {{calling function 'Wait' requir}}
  }

  void LocksTwice() {
    const MutexLock lock(mutex_);  // expected-note {{mutex acquired here}}
    mutex_.Lock();  // expected-error {{acquiring mutex 'mutex_' that}}
  }

  void CallsWhatLocks() {
    const MutexLock lock(mutex_);
    Right();  // expected-error {{cannot call function 'Right' while mutex}}
  }

  void KeepsItLocked() {
    mutex_.Lock();  // expected-note {{mutex acquired here}}
  }  // expected-error {{mutex 'mutex_' is still held at the end of function}}

 private:
  void Increment() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { ++count_; }

  Mutex mutex_;
  CondVar changed_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace
}  // namespace steadystate
