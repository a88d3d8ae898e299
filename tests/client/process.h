#ifndef STEADYSTATE_TESTS_CLIENT_PROCESS_H_
#define STEADYSTATE_TESTS_CLIENT_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace steadystate {

// A program that runs beside the test, its standard output readable. Killed, if
// it still runs, at the end of its life.
class Process {
 public:
  // Starts arguments[0]; its standard error goes to the file `stderr_path`.
  Process(const std::vector<std::string>& arguments,
          const std::string& stderr_path);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // The next line of its standard output, without the line end; what there was
  // if the output ends before.
  std::string ReadLine();

  // Waits for the next `count` bytes of its standard output.
  std::string Read(size_t count);

  void Signal(int signal) const;

  // While it runs.
  pid_t pid() const { return pid_; }

  // Waits for its end; returns its exit code, or 128 + the signal that ended
  // it.
  int Wait();

 private:
  pid_t pid_ = -1;
  int output_ = -1;
};

// What a command line did.
struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

// Runs a shell command with nothing on standard input and waits for its end.
// Uses files in `directory`.
Outcome RunShell(const std::string& command, const std::string& directory);

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_CLIENT_PROCESS_H_
