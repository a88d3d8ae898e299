#ifndef STEADYSTATE_SERVER_BASE_LINE_WRITER_H_
#define STEADYSTATE_SERVER_BASE_LINE_WRITER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace steadystate {

// Writes lines to a descriptor from a thread of its own: whoever gives it a
// line never waits, also where nobody reads the other end of the pipe. Lines
// that do not fit its queue are dropped and counted. The descriptor stays as it
// is: other processes may share it. Thread-safe.
class LineWriter {
 public:
  // What to write where `lines` lines are missing, its line end included.
  using Note = std::string (*)(uint64_t lines);

  // `descriptor` outlives the process. Holds up to `max_bytes` of lines that
  // wait, each counted with what the queue takes for it. Without a note nothing
  // is said about those that are dropped.
  LineWriter(int descriptor, size_t max_bytes, Note note = nullptr);

  // Does not wait for lines that are not yet written: they may still be, or
  // not.
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  // Takes a line, its end included, which goes out in one write(2).
  void Write(std::string line);

  // Waits for all lines taken so far to be written, or for `timeout`, which is
  // what says false. May be called in a signal handler.
  bool Flush(std::chrono::milliseconds timeout) const;

  // Lines that nobody will see: there was no room, or writing failed.
  uint64_t dropped() const;

 private:
  struct Queue;
  // Shared with the thread, which cannot be stopped while it writes.
  const std::shared_ptr<Queue> queue_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_BASE_LINE_WRITER_H_
