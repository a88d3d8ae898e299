#ifndef STEADYSTATE_SERVER_STOP_SIGNAL_H_
#define STEADYSTATE_SERVER_STOP_SIGNAL_H_

namespace steadystate {

// Turns SIGTERM and SIGINT into an orderly end. A thread of its own waits for
// them; nothing runs in a signal handler. Those that come before that wait for
// it: the program is linked so that they are blocked before main, and before
// the constructors of libraries. Only while the system loads the program does
// a signal end it as if it knew nothing of signals.

// Has the signals end a process that serves nobody: it prints and ends.
void LetStopSignalsThrough();

// Blocks the signals in this thread and in all that it starts, and starts the
// waiting thread. A signal ends the process at once, with 0: it has nothing yet
// that would have to end in order. Call once, before any other thread that
// signals could go to.
void StartStopSignals();

// From now on the first signal makes WaitForStopSignal return instead. The
// second one ends the process at once, with 128 plus its number.
void KeepFirstStopSignal();

// Returns after the first signal since KeepFirstStopSignal.
void WaitForStopSignal();

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_STOP_SIGNAL_H_
