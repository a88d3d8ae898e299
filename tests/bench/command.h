#ifndef STEADYSTATE_TESTS_BENCH_COMMAND_H_
#define STEADYSTATE_TESTS_BENCH_COMMAND_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/options/options.h"
#include "tests/bench/report.h"

namespace steadystate::bench {

// That --threads can be.
inline constexpr size_t kMaxThreads = 1024;

// What help says about a command, beside its options.
struct CommandText {
  absl::string_view name;         // "engine"
  absl::string_view summary;      // one line
  absl::string_view description;  // wrapped at 80 columns
  absl::string_view examples;     // command lines, indented
};

// What every command is told.
struct RunOptions {
  // Measures next to nothing, in a moment: the command must keep working.
  bool quick = false;
  size_t repetitions = 5;
  uint64_t seed = 1;

  // `usual`, or the little that --quick has for it.
  template <typename T>
  T Unless(T quickly, T usual) const {
    return quick ? quickly : usual;
  }
};

// A subcommand. Used once, in the order of the methods.
class Command {
 public:
  virtual ~Command() = default;

  virtual CommandText text() const = 0;

  // Its own options; their targets lie in this object.
  virtual client::OptionTable options() = 0;

  // Checks what the options have said, once all are read. An error is the
  // user's.
  virtual absl::Status Check(const RunOptions& run) = 0;

  // Measures. Says how far it is on standard error only.
  virtual absl::StatusOr<Report> Run(const RunOptions& run) = 0;
};

// One factory for each command; each command has a file of its name.
std::unique_ptr<Command> MakeCheckpointCommand();
std::unique_ptr<Command> MakeKernelsCommand();
std::unique_ptr<Command> MakeEngineCommand();
std::unique_ptr<Command> MakeServeCommand();
std::unique_ptr<Command> MakeAgeCommand();
std::unique_ptr<Command> MakeSessionsCommand();
std::unique_ptr<Command> MakeMixedCommand();

}  // namespace steadystate::bench

#endif  // STEADYSTATE_TESTS_BENCH_COMMAND_H_
