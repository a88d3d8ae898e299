#include "client/load/server_watch.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace steadystate::client {
namespace {

// A page that takes longer tells of another time than it should.
constexpr absl::Duration kTimeout = absl::Seconds(2);

constexpr char kCpu[] = "process_cpu_seconds_total";
constexpr char kResident[] = "process_resident_memory_bytes";
constexpr char kThreads[] = "steadystate_compute_threads";
constexpr char kWaiting[] = "steadystate_requests_waiting";
constexpr char kStreams[] = "steadystate_grpc_streams";
constexpr char kQueue[] = "steadystate_queue_duration_seconds";

void Raise(std::optional<double>& peak, const std::optional<double>& value) {
  if (value) peak = std::max(peak.value_or(0), *value);
}

std::optional<double> Rate(const MetricsPage& from, const MetricsPage& to,
                           std::chrono::steady_clock::duration time) {
  const auto before = from.Sum(kCpu);
  const auto after = to.Sum(kCpu);
  const double seconds = std::chrono::duration<double>(time).count();
  if (!before || !after || seconds <= 0) return std::nullopt;
  return (*after - *before) / seconds;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServerWatch>> ServerWatch::Open(
    const std::string& url) {
  auto address = ParseHttpAddress(url);
  if (!address.ok()) return address.status();
  const auto page = HttpGet(*address, kTimeout);
  if (!page.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the server's metrics cannot be read: ", page.status().message(),
        "; --metrics is what the server's --metrics_listen says"));
  }
  const MetricsPage metrics(*page);
  if (!metrics.Sum(kThreads)) {
    return absl::FailedPreconditionError(
        absl::StrCat(url, " has no ", kThreads,
                     ": it is not a metrics page of steadystate-server"));
  }
  auto watch =
      std::unique_ptr<ServerWatch>(new ServerWatch(*std::move(address)));
  watch->use_.compute_threads = metrics.Sum(kThreads);
  return watch;
}

ServerWatch::~ServerWatch() {
  if (!done_.valid()) return;
  End();
  done_.wait();
}

void ServerWatch::Begin() {
  begin_ = Clock::now();
  done_ = std::async(std::launch::async, [this] { Run(); });
}

void ServerWatch::End() {
  const MutexLock lock(mutex_);
  over_ = true;
  changed_.SignalAll();
}

// The first look is at the beginning and the last one at the end.
void ServerWatch::Run() {
  auto due = begin_;
  bool over = false;
  while (!over) {
    Look();
    due = std::max(due + interval_, Clock::now());
    const MutexLock lock(mutex_);
    while (!over_ && changed_.WaitUntil(mutex_, due)) {
    }
    over = over_;
  }
  Look();
}

void ServerWatch::Look() {
  const auto text = HttpGet(address_, kTimeout);
  if (!text.ok()) {
    ++use_.missed;
    return;
  }
  MetricsPage page(*text);
  const auto now = Clock::now();
  ServerUse::Sample sample;
  sample.seconds = std::chrono::duration<double>(now - begin_).count();
  sample.waiting = page.Sum(kWaiting);
  if (last_) sample.cpus = Rate(*last_, page, now - last_time_);
  Raise(use_.peak_waiting, sample.waiting);
  Raise(use_.peak_streams, page.Sum(kStreams));
  Raise(use_.peak_resident_bytes, page.Sum(kResident));
  use_.samples.push_back(sample);
  if (!first_) {
    first_ = page;
    first_time_ = now;
  }
  last_ = std::move(page);
  last_time_ = now;
  if (use_.samples.size() == kMaxSamples) Thin();
}

// What two samples said becomes one: where it ended, the processors of both.
void ServerWatch::Thin() {
  auto& samples = use_.samples;
  for (size_t i = 0; i + 1 < samples.size(); i += 2) {
    const ServerUse::Sample& first = samples[i];
    ServerUse::Sample both = samples[i + 1];
    if (both.cpus && first.cpus) both.cpus = (*both.cpus + *first.cpus) / 2;
    Raise(both.waiting, first.waiting);
    samples[i / 2] = both;
  }
  samples.resize(samples.size() / 2);
  interval_ *= 2;
}

ServerUse ServerWatch::Take() {
  done_.get();
  if (!first_ || first_time_ == last_time_) return std::move(use_);
  use_.cpus = Rate(*first_, *last_, last_time_ - first_time_);
  const std::string bucket = absl::StrCat(kQueue, "_bucket");
  for (const std::string& phase : last_->LabelValues(bucket, "phase")) {
    const auto before = first_->Buckets(kQueue, "phase", phase);
    const auto after = last_->Buckets(kQueue, "phase", phase);
    use_.queues.push_back({phase, QuantileBetween(before, after, 0.5),
                           QuantileBetween(before, after, 0.99)});
  }
  return std::move(use_);
}

}  // namespace steadystate::client
