#ifndef STEADYSTATE_TESTS_E2E_FETCH_METRICS_H_
#define STEADYSTATE_TESTS_E2E_FETCH_METRICS_H_

#include <string>

namespace steadystate {

// The body of http://ADDRESS/metrics, `address` being 127.0.0.1:PORT; empty if
// there is none.
std::string FetchMetrics(const std::string& address);

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_E2E_FETCH_METRICS_H_
