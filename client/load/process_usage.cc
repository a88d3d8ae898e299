#include "client/load/process_usage.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>

namespace steadystate::client {

absl::Duration ProcessCpuTime() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return absl::DurationFromTimeval(usage.ru_utime) +
         absl::DurationFromTimeval(usage.ru_stime);
}

size_t UsableProcessors() {
  cpu_set_t processors;
  CPU_ZERO(&processors);
  if (sched_getaffinity(0, sizeof(processors), &processors) != 0) return 1;
  return static_cast<size_t>(std::max(CPU_COUNT(&processors), 1));
}

}  // namespace steadystate::client
