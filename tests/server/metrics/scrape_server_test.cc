// Goal: a scrape is answered whatever other connections do, and without
// descriptors; and each request gets the response that HTTP has for it. Method:
// real servers on free ports, clients that misbehave; requests as text.
#include "server/metrics/scrape_server.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/no_descriptors.h"
#include "tests/testing/tcp_client.h"

namespace steadystate::scrape_server_test {
namespace {

using testing::Each;
using testing::EndsWith;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

constexpr absl::string_view kRequest =
    "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

// Larger than what the system holds for a peer that does not read.
const std::string& LongPage() {
  static const auto* const page = new std::string(8 << 20, 'x');
  return *page;
}

// Has one page, at /metrics.
Pages OnePage(std::string body) {
  return [body = std::move(body)](absl::string_view path) {
    return path == "/metrics" ? std::make_optional(Page{body}) : std::nullopt;
  };
}

std::unique_ptr<ScrapeServer> StartServer(std::string page = "the page\n") {
  auto server = ScrapeServer::Start("127.0.0.1:0", OnePage(std::move(page)));
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

std::string Scrape(const ScrapeServer& server) {
  TcpClient client(server.port());
  EXPECT_TRUE(client.Send(kRequest));
  return client.ReceiveAll();
}

using Clients = std::vector<std::unique_ptr<TcpClient>>;

// Connections that have sent `bytes`.
Clients ConnectionsWith(absl::string_view bytes, size_t count, int port) {
  Clients clients;
  for (size_t i = 0; i < count; ++i) {
    clients.push_back(std::make_unique<TcpClient>(port));
    EXPECT_TRUE(clients.back()->connected());
    clients.back()->Send(bytes);
  }
  return clients;
}

TEST(ScrapeServerTest, ServesThePageAndCloses) {
  const auto server = StartServer();
  const std::string answer = Scrape(*server);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\nthe page\n"));
}

TEST(ScrapeServerTest, ReadsRequestsThatComeByteByByte) {
  const auto server = StartServer();
  TcpClient client(server->port());
  for (const char& byte : kRequest) {
    ASSERT_TRUE(client.Send(absl::string_view(&byte, 1)));
  }
  EXPECT_THAT(client.ReceiveAll(), EndsWith("\r\n\r\nthe page\n"));
}

TEST(ScrapeServerTest, WhatFollowsTheRequestDoesNotCutTheAnswerOff) {
  const auto server = StartServer(LongPage());
  TcpClient client(server->port());
  ASSERT_TRUE(client.Send(kRequest));
  ASSERT_TRUE(client.Send(kRequest));
  EXPECT_GT(client.ReceiveAll().size(), LongPage().size());
}

// With as many threads as the server had, two of these stopped all scrapes.
TEST(ScrapeServerTest, AnswersBesideConnectionsThatDoNotAsk) {
  const auto server = StartServer();
  for (const absl::string_view bytes : {"", "GET /metr",
                                        "GET /metrics HTTP/1.1"
                                        "\r\nHost: x\r\n"}) {
    const Clients idle = ConnectionsWith(bytes, 64, server->port());
    for (int i = 0; i < 8; ++i) {
      EXPECT_THAT(Scrape(*server), StartsWith("HTTP/1.1 200 OK\r\n")) << bytes;
    }
  }
}

TEST(ScrapeServerTest, AnswersBesideConnectionsThatDoNotRead) {
  const auto server = StartServer(LongPage());
  const Clients unread = ConnectionsWith(kRequest, 64, server->port());
  EXPECT_GT(Scrape(*server).size(), LongPage().size());
}

TEST(ScrapeServerTest, MakesRoomByClosingTheOldestThatHasNotAsked) {
  const auto server = StartServer();
  const Clients idle =
      ConnectionsWith("GET", ScrapeServer::kMaxConnections + 1, server->port());
  EXPECT_EQ(idle.front()->ReceiveAll(), "");
  // The others are still there.
  EXPECT_TRUE(idle.back()->Send(" /metrics HTTP/1.1\r\n\r\n"));
  EXPECT_THAT(idle.back()->ReceiveAll(), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST(ScrapeServerTest, AnswersWithoutDescriptors) {
  const auto server = StartServer();
  TcpClient idle(server->port());
  ASSERT_TRUE(idle.connected());
  // A client takes a descriptor too.
  Clients clients;
  for (int i = 0; i < 8; ++i) clients.push_back(std::make_unique<TcpClient>());
  std::vector<std::string> answers;
  {
    const NoDescriptors none;
    for (const auto& client : clients) {
      client->Connect(server->port());
      client->Send(kRequest);
      answers.push_back(client->ReceiveAll());
    }
  }
  EXPECT_THAT(answers, SizeIs(8));
  EXPECT_THAT(answers, Each(StartsWith("HTTP/1.1 200 OK\r\n")));
}

TEST(ScrapeServerTest, EndsBesideOpenConnections) {
  auto server = StartServer(LongPage());
  const Clients idle = ConnectionsWith("GET", 4, server->port());
  const Clients unread = ConnectionsWith(kRequest, 4, server->port());
  EXPECT_NE(unread.front()->Receive(), "");
  server.reset();
  EXPECT_EQ(idle.back()->ReceiveAll(), "");
}

std::optional<std::string> Answer(absl::string_view received) {
  return AnswerScrape(received, OnePage("the page\n"));
}

TEST(ScrapeAnswerTest, GetHasThePage) {
  const auto answer = Answer("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(answer.has_value());
  EXPECT_THAT(*answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(*answer, HasSubstr("\r\nContent-Type: text/plain; "
                                 "charset=utf-8\r\n"));
  EXPECT_THAT(*answer, HasSubstr("\r\nContent-Length: 9\r\n"));
  EXPECT_THAT(*answer, HasSubstr("\r\nConnection: close\r\n"));
  EXPECT_THAT(*answer, EndsWith("\r\n\r\nthe page\n"));
}

TEST(ScrapeAnswerTest, HeadHasTheLengthOnly) {
  const auto answer = Answer("HEAD /metrics HTTP/1.0\r\n\r\n");
  ASSERT_TRUE(answer.has_value());
  EXPECT_THAT(*answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(*answer, HasSubstr("\r\nContent-Length: 9\r\n"));
  EXPECT_THAT(*answer, EndsWith("\r\n\r\n"));
}

TEST(ScrapeAnswerTest, WaitsForTheWholeHead) {
  const std::string request = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
  for (size_t size = 0; size < request.size(); ++size) {
    EXPECT_EQ(Answer(request.substr(0, size)), std::nullopt) << size;
  }
}

TEST(ScrapeAnswerTest, TakesQueriesAndBareNewLines) {
  EXPECT_THAT(Answer("GET /metrics?a=b HTTP/1.1\n\n").value_or(""),
              StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST(ScrapeAnswerTest, RefusesTheRest) {
  EXPECT_THAT(Answer("GET / HTTP/1.1\r\n\r\n").value_or(""),
              StartsWith("HTTP/1.1 404 Not Found\r\n"));
  EXPECT_THAT(Answer("GET /metrics/x HTTP/1.1\r\n\r\n").value_or(""),
              StartsWith("HTTP/1.1 404 Not Found\r\n"));
  const std::string wrong_method =
      Answer("POST /metrics HTTP/1.1\r\n\r\n").value_or("");
  EXPECT_THAT(wrong_method, StartsWith("HTTP/1.1 405 Method Not Allowed\r\n"));
  EXPECT_THAT(wrong_method, HasSubstr("\r\nAllow: GET, HEAD\r\n"));
  for (const char* request :
       {"\r\n\r\n", "GET\r\n\r\n", "GET /metrics\r\n\r\n",
        "GET /metrics HTTP/2.0\r\n\r\n", "GET  HTTP/1.1\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"}) {
    EXPECT_THAT(Answer(request).value_or(""),
                StartsWith("HTTP/1.1 400 Bad Request\r\n"))
        << request;
  }
}

TEST(ScrapeAnswerTest, RefusesOverlongHeads) {
  const std::string field(kMaxScrapeRequestBytes, 'x');
  EXPECT_THAT(Answer("GET /metrics HTTP/1.1\r\n" + field).value_or(""),
              StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(
      Answer("GET /metrics HTTP/1.1\r\n" + field + "\r\n\r\n").value_or(""),
      StartsWith("HTTP/1.1 431 "));
}

TEST(ScrapeServerTest, PicksAFreePortAndRefusesATakenOne) {
  const auto first = ScrapeServer::Start("127.0.0.1:0", OnePage(""));
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_GT((*first)->port(), 0);
  const std::string taken = absl::StrCat("127.0.0.1:", (*first)->port());
  const auto second = ScrapeServer::Start(taken, OnePage(""));
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(taken));
}

// How long a server takes to end.
std::chrono::steady_clock::duration TimeToEnd(const char* address) {
  auto server = ScrapeServer::Start(address, OnePage(""));
  EXPECT_TRUE(server.ok()) << server.status();
  if (!server.ok()) return std::chrono::hours(1);
  const auto start = std::chrono::steady_clock::now();
  server->reset();
  return std::chrono::steady_clock::now() - start;
}

// A busy machine may take longer now and then.
TEST(ScrapeServerTest, EndsAtOnce) {
  constexpr int kTries = 10;
  constexpr std::chrono::milliseconds kAtOnce(1500);
  for (const char* address : {"127.0.0.1:0", "0.0.0.0:0"}) {
    int tries = 1;
    while (tries <= kTries && TimeToEnd(address) >= kAtOnce) ++tries;
    EXPECT_LE(tries, kTries) << address;
  }
}

TEST(ScrapeServerTest, RefusesMalformedAddresses) {
  for (const char* address : {"", "localhost", ":9464", "h:x", "h:70000"}) {
    EXPECT_EQ(ScrapeServer::Start(address, OnePage("")).status().code(),
              absl::StatusCode::kInvalidArgument)
        << address;
  }
}

}  // namespace
}  // namespace steadystate::scrape_server_test
