#ifndef STEADYSTATE_CLIENT_CLI_LINE_READER_H_
#define STEADYSTATE_CLIENT_CLI_LINE_READER_H_

#include <cstddef>
#include <string>

namespace steadystate::client {

// Lines of a descriptor, waited for so that another thread can end the wait.
// Used by one thread, but for Wake.
class LineReader {
 public:
  enum class Event {
    kLine,
    kTooLong,  // a line was longer than allowed, and is left out
    kWoken,    // Wake was called; lines that have come are not lost
    kEnd,      // of the file, or it cannot be read any more
  };

  // Reads `descriptor`, which stays the caller's, and takes lines of at most
  // `max_bytes`.
  LineReader(int descriptor, size_t max_bytes);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // Waits for the next line and puts it, without its end, into `line`. The last
  // one needs no end.
  Event Next(std::string& line);

  // Lets Next, or the next one, return. Thread-safe, never waits.
  void Wake();

 private:
  // Takes the first line off what was read; false if there is none.
  bool TakeLine(std::string& line, Event& event);

  const int descriptor_;
  const size_t max_bytes_;
  const int wake_;  // an eventfd
  std::string read_;
  bool dropping_ = false;  // the rest of a line that is too long
  bool ended_ = false;
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_CLI_LINE_READER_H_
