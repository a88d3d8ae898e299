#ifndef STEADYSTATE_CLIENT_LOAD_PROCESS_USAGE_H_
#define STEADYSTATE_CLIENT_LOAD_PROCESS_USAGE_H_

#include <cstddef>

#include "absl/time/time.h"

namespace steadystate::client {

// Processor time that this process has used so far, all threads.
absl::Duration ProcessCpuTime();

// Processors that this process may run on, at least 1.
size_t UsableProcessors();

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_PROCESS_USAGE_H_
