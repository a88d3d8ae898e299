#ifndef STEADYSTATE_TESTS_E2E_FETCH_METRICS_H_
#define STEADYSTATE_TESTS_E2E_FETCH_METRICS_H_

#include <string>

namespace steadystate {

// An answer by HTTP.
struct HttpAnswer {
  int status = 0;  // such as 200; 0 if nothing was answered
  std::string body;
};

// What `server`, 127.0.0.1:PORT, answers to a GET of `path`.
HttpAnswer FetchPage(const std::string& server, const std::string& path);

// The body of http://ADDRESS/metrics, `address` being 127.0.0.1:PORT; empty if
// there is none.
std::string FetchMetrics(const std::string& address);

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_E2E_FETCH_METRICS_H_
