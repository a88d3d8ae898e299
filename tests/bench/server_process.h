#ifndef STEADYSTATE_TESTS_BENCH_SERVER_PROCESS_H_
#define STEADYSTATE_TESTS_BENCH_SERVER_PROCESS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/client/process.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::bench {

// A steadystate-server beside this process, on free ports. Killed at the end of
// its life.
class ServerProcess {
 public:
  // INVALID_ARGUMENT if there is no such program, see Start.
  static absl::Status Check(const std::string& program);

  // Returns when it is ready. `program` empty: the steadystate-server that lies
  // beside this program. FAILED_PRECONDITION, with what it said, if it does not
  // come up.
  static absl::StatusOr<std::unique_ptr<ServerProcess>> Start(
      const std::string& program, const std::vector<std::string>& flags);

  const std::string& address() const { return address_; }

  // Ends it in order, as SIGTERM does, and waits. FAILED_PRECONDITION, with
  // what it said, if it says that it could not.
  absl::Status Stop();

  // Processor time that it has used, in seconds, of all threads; known to a
  // hundredth of a second.
  double CpuSeconds() const;

  // Bytes of its memory that are resident, and the most that ever were.
  uint64_t ResidentBytes() const { return StatusBytes("VmRSS:"); }
  uint64_t PeakResidentBytes() const { return StatusBytes("VmHWM:"); }

  // Bytes that it has had written to disks; 0 where the system does not tell.
  uint64_t WrittenBytes() const;

 private:
  ServerProcess() = default;
  uint64_t StatusBytes(const std::string& field) const;

  TempDirectory directory_;  // its log
  std::unique_ptr<Process> process_;
  std::string address_;
};

}  // namespace steadystate::bench

#endif  // STEADYSTATE_TESTS_BENCH_SERVER_PROCESS_H_
