// Goal: each request gets the response that HTTP has for it.
#include "server/metrics/scrape_answer.h"

#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

std::optional<std::string> Answer(absl::string_view received) {
  return AnswerScrape(received, [] { return std::string("the page\n"); });
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

}  // namespace
}  // namespace steadystate
