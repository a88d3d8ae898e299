// Goal: the pages say how the server is, and exist from its first moments on.
// Method: a real server on a free port, asked over HTTP; only the health is the
// test's.
#include "server/metrics/status_pages.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/tcp_client.h"

namespace steadystate::status_pages_test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr char kOk[] = "HTTP/1.1 200 OK\r\n";
constexpr char kUnavailable[] = "HTTP/1.1 503 Service Unavailable\r\n";

class StatusPagesTest : public testing::Test {
 protected:
  StatusPagesTest() {
    absl::StatusOr<Listener> listener =
        Bind("127.0.0.1:0", AnyAddress::kIpv4Only);
    EXPECT_TRUE(listener.ok()) << listener.status();
    auto server = ScrapeServer::Start(
        *std::move(listener),
        [this](absl::string_view path) { return pages_.Get(path); });
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  std::string Get(absl::string_view path) const {
    TcpClient client(server_->port());
    EXPECT_TRUE(client.Send(absl::StrCat("GET ", path, " HTTP/1.1\r\n\r\n")));
    return client.ReceiveAll();
  }

  // What /healthz and /readyz answer.
  void ExpectPages(const char* live, const char* live_word, const char* ready,
                   const char* ready_word) const {
    const std::string liveness = Get("/healthz");
    EXPECT_THAT(liveness, StartsWith(live));
    EXPECT_THAT(liveness, EndsWith(absl::StrCat("\r\n\r\n", live_word, "\n")));
    const std::string readiness = Get("/readyz");
    EXPECT_THAT(readiness, StartsWith(ready));
    EXPECT_THAT(readiness,
                EndsWith(absl::StrCat("\r\n\r\n", ready_word, "\n")));
  }

  StatusPages pages_;
  std::unique_ptr<ScrapeServer> server_;
};

TEST_F(StatusPagesTest, SayThatItLoadsAtFirst) {
  ExpectPages(kOk, "ok", kUnavailable, "loading");
  const std::string metrics = Get("/metrics");
  EXPECT_THAT(metrics, StartsWith(kUnavailable));
  EXPECT_THAT(metrics, EndsWith("\r\n\r\nloading\n"));
}

TEST_F(StatusPagesTest, FollowHealth) {
  ServerHealth health = ServerHealth::kServing;
  pages_.SetHealth([&health] { return health; });
  ExpectPages(kOk, "ok", kOk, "ready");
  health = ServerHealth::kDraining;
  ExpectPages(kOk, "ok", kUnavailable, "draining");
  health = ServerHealth::kStuck;
  ExpectPages(kUnavailable, "stuck", kUnavailable, "stuck");
  server_.reset();
}

TEST_F(StatusPagesTest, MetricsOutliveWhoCountsThem) {
  pages_.SetMetrics(Metrics("demo"));
  const std::string metrics = Get("/metrics?name=x");
  EXPECT_THAT(metrics, StartsWith(kOk));
  EXPECT_THAT(metrics,
              HasSubstr("\r\nContent-Type: text/plain; charset=utf-8\r\n"));
  EXPECT_THAT(metrics, HasSubstr("\nsteadystate_ready{model=\"demo\"} 0\n"));
}

TEST_F(StatusPagesTest, TheFirstPageLinksToAllOthers) {
  const std::string index = Get("/");
  EXPECT_THAT(index, StartsWith(kOk));
  EXPECT_THAT(index,
              HasSubstr("\r\nContent-Type: text/html; charset=utf-8\r\n"));
  pages_.SetMetrics(Metrics("demo"));
  pages_.SetHealth([] { return ServerHealth::kServing; });
  for (const char* path : {"/metrics", "/healthz", "/readyz"}) {
    EXPECT_THAT(index, HasSubstr(absl::StrCat("<a href=\"", path, "\">")));
    EXPECT_THAT(Get(path), StartsWith(kOk)) << path;
  }
}

TEST_F(StatusPagesTest, ThereIsNothingElse) {
  for (const char* path : {"/metrics/", "/health", "/readyz/x", "//", "*"}) {
    EXPECT_THAT(Get(path), StartsWith("HTTP/1.1 404 Not Found\r\n")) << path;
  }
}

}  // namespace
}  // namespace steadystate::status_pages_test
