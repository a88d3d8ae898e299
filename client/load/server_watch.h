#ifndef STEADYSTATE_CLIENT_LOAD_SERVER_WATCH_H_
#define STEADYSTATE_CLIENT_LOAD_SERVER_WATCH_H_

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "client/load/http_get.h"
#include "client/load/prometheus_text.h"
#include "client/mutex.h"

namespace steadystate::client {

// What the server's metrics say about the time measured, whatever clients it
// had. What a server does not export is absent.
struct ServerUse {
  // How long work waited before the server began with it, by its histogram.
  struct Queue {
    std::string phase;
    std::optional<double> p50_seconds;
    std::optional<double> p99_seconds;
  };
  // How things stood at one time.
  struct Sample {
    double seconds = 0;          // since the beginning
    std::optional<double> cpus;  // since the sample before
    std::optional<double> waiting;
  };

  std::optional<double> cpus;  // processors used, on average
  std::optional<double> compute_threads;
  std::vector<Queue> queues;
  // Of the samples, the highest.
  std::optional<double> peak_waiting;  // requests in its queue
  std::optional<double> peak_streams;  // calls that it had open
  std::optional<double> peak_resident_bytes;
  std::vector<Sample> samples;
  uint64_t missed = 0;  // samples that could not be had
};

// Looks at a server's metrics from time to time, on a thread of its own, so
// that nobody waits for them. At most kMaxSamples are kept: from then on it
// looks half as often. Thread-compatible.
class ServerWatch {
 public:
  static constexpr size_t kMaxSamples = 240;

  // Looks once. An error says why that was not possible, or that there is
  // nothing of Steadystate's there.
  static absl::StatusOr<std::unique_ptr<ServerWatch>> Open(
      const std::string& url);

  ~ServerWatch();
  ServerWatch(const ServerWatch&) = delete;
  ServerWatch& operator=(const ServerWatch&) = delete;

  // The time measured begins. REQUIRES: once.
  void Begin();
  // It ends. Does not wait. REQUIRES: after Begin, once.
  void End();
  // Waits for the last sample. REQUIRES: after End, once.
  ServerUse Take();

 private:
  using Clock = std::chrono::steady_clock;

  explicit ServerWatch(HttpAddress address) : address_(std::move(address)) {}

  void Run();
  void Look();
  void Thin();

  const HttpAddress address_;
  Mutex mutex_;
  CondVar changed_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;

  // Of the thread, and of others when it has ended.
  Clock::time_point begin_;
  Clock::duration interval_ = std::chrono::milliseconds(500);
  std::optional<MetricsPage> first_;
  std::optional<MetricsPage> last_;
  Clock::time_point first_time_;
  Clock::time_point last_time_;
  ServerUse use_;
  std::future<void> done_;
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_SERVER_WATCH_H_
