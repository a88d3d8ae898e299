#include "tests/bench/environment.h"

#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "kernels/cpu_target.h"
#include "server/base/process.h"
#include "server/base/version.h"

namespace steadystate::bench {
namespace {

std::string CpuName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!absl::StartsWith(line, "model name")) continue;
    return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

// Of the last minute; below 0 if the system does not say.
double LoadAverage() {
  double load = -1;
  return getloadavg(&load, 1) == 1 ? load : -1;
}

}  // namespace

nlohmann::json DescribeEnvironment() {
  return {{"cpu", CpuName()},
          {"cpus", UsableCpus()},
          {"kernel_target", KernelTargetName()},
          {"version", kVersion},
          {"load_average", LoadAverage()}};
}

}  // namespace steadystate::bench
