#include "server/metrics/status_pages.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace steadystate {
namespace {

constexpr absl::string_view kUnavailable = "503 Service Unavailable";

constexpr absl::string_view kIndex = R"(<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Steadystate</title></head>
<body>
<h1>Steadystate</h1>
<p>A server for linear-attention models. It is used by gRPC, on another port.
Here is what it says of itself:</p>
<ul>
<li><a href="/metrics">/metrics</a>: its metrics, for Prometheus</li>
<li><a href="/healthz">/healthz</a>: 200 while the process works, 503 if it is
stuck</li>
<li><a href="/readyz">/readyz</a>: 200 while requests are taken, else 503 and
why not</li>
</ul>
</body>
</html>
)";

absl::string_view Word(ServerHealth health) {
  switch (health) {
    case ServerHealth::kLoading:
      return "loading";
    case ServerHealth::kServing:
      return "ready";
    case ServerHealth::kDraining:
      return "draining";
    case ServerHealth::kStuck:
      return "stuck";
  }
  return "unknown";
}

Page LivenessPage(ServerHealth health) {
  if (health != ServerHealth::kStuck) return {.body = "ok\n"};
  return {.body = absl::StrCat(Word(health), "\n"), .status = kUnavailable};
}

Page ReadinessPage(ServerHealth health) {
  Page page{.body = absl::StrCat(Word(health), "\n")};
  if (health != ServerHealth::kServing) page.status = kUnavailable;
  return page;
}

}  // namespace

void StatusPages::SetMetrics(const Metrics& metrics) {
  const MutexLock lock(mutex_);
  collectables_ = metrics.collectables();
}

void StatusPages::SetHealth(std::function<ServerHealth()> health) {
  const MutexLock lock(mutex_);
  health_ = std::move(health);
}

std::optional<Page> StatusPages::Get(absl::string_view path) const {
  if (path == "/metrics") return MetricsPage();
  if (path == "/healthz") return LivenessPage(health());
  if (path == "/readyz") return ReadinessPage(health());
  if (path == "/") {
    return Page{.body = std::string(kIndex),
                .type = "text/html; charset=utf-8"};
  }
  return std::nullopt;
}

Page StatusPages::MetricsPage() const {
  std::vector<std::shared_ptr<prometheus::Collectable>> collectables;
  {
    const MutexLock lock(mutex_);
    collectables = collectables_;
  }
  if (collectables.empty()) return ReadinessPage(ServerHealth::kLoading);
  return {.body = Exposition(collectables)};
}

ServerHealth StatusPages::health() const {
  std::function<ServerHealth()> ask;
  {
    const MutexLock lock(mutex_);
    ask = health_;
  }
  return ask == nullptr ? ServerHealth::kLoading : ask();
}

}  // namespace steadystate
