// Goal: metrics pages are read as they are, whatever else is in them, and
// quantiles are of what came between two looks. Method: pages by hand.
#include "client/load/prometheus_text.h"

#include <limits>
#include <string>

#include "client/load/http_get.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::client::prometheus_text_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr char kPage[] = R"(# HELP a_total Something.
# TYPE a_total counter
a_total{kind="one",model="x \\ \"y\", {z}"} 3
a_total{kind="two"} 4.5 1700000000
process_cpu_seconds_total 12.25
wait_bucket{phase="decode",le="0.1"} 5
wait_bucket{phase="decode",le="0.2"} 7
wait_bucket{phase="decode",le="+Inf"} 8
wait_bucket{phase="prefill",le="+Inf"} 2
broken{kind="one 5
broken{kind=one} 5
broken
broken five
)";

TEST(MetricsPageTest, SamplesAreFoundAndAddedUp) {
  const MetricsPage page(kPage);
  EXPECT_EQ(page.Sum("a_total"), 7.5);
  EXPECT_EQ(page.Sum("process_cpu_seconds_total"), 12.25);
  EXPECT_EQ(page.Sum("a"), std::nullopt);
  EXPECT_EQ(page.Sum("broken"), std::nullopt);
  EXPECT_THAT(page.LabelValues("a_total", "kind"), ElementsAre("one", "two"));
  EXPECT_THAT(page.LabelValues("a_total", "model"),
              ElementsAre("x \\ \"y\", {z}"));
}

TEST(MetricsPageTest, BucketsAreThoseOfALabel) {
  const MetricsPage page(kPage);
  EXPECT_THAT(page.Buckets("wait", "phase", "decode"),
              ElementsAre(Pair(0.1, 5), Pair(0.2, 7), Pair(kInfinity, 8)));
  EXPECT_THAT(page.Buckets("wait", "phase", "none"), IsEmpty());
}

TEST(QuantileBetweenTest, OnlyWhatCameBetweenCounts) {
  const std::map<double, double> before = {
      {1, 100}, {2, 100}, {kInfinity, 100}};
  const std::map<double, double> after = {{1, 104}, {2, 108}, {kInfinity, 110}};
  EXPECT_DOUBLE_EQ(*QuantileBetween(before, after, 0.2), 0.5);
  EXPECT_DOUBLE_EQ(*QuantileBetween(before, after, 0.6), 1.5);
  // Beyond the last bound.
  EXPECT_DOUBLE_EQ(*QuantileBetween(before, after, 0.99), 2);
  EXPECT_DOUBLE_EQ(*QuantileBetween({}, after, 0.5), 55.0 / 104);
  EXPECT_FALSE(QuantileBetween(after, after, 0.5));
  EXPECT_FALSE(QuantileBetween(before, {}, 0.5));
}

std::string Parts(const std::string& url) {
  const auto address = ParseHttpAddress(url);
  if (!address.ok()) return std::string(address.status().message());
  return address->host + " " + address->port + " " + address->path;
}

TEST(ParseHttpAddressTest, WhatIsLeftOutIsUsual) {
  EXPECT_EQ(Parts("http://host:9090/metrics"), "host 9090 /metrics");
  EXPECT_EQ(Parts("127.0.0.1:9090"), "127.0.0.1 9090 /metrics");
  EXPECT_EQ(Parts("http://host"), "host 80 /metrics");
  EXPECT_EQ(Parts("host:1/a/b?c"), "host 1 /a/b?c");
  EXPECT_EQ(Parts("[::1]:9090"), "::1 9090 /metrics");
  EXPECT_EQ(Parts("http://[::1]/m"), "::1 80 /m");
}

TEST(ParseHttpAddressTest, WhatCannotBeMeantIsRefused) {
  EXPECT_THAT(Parts("https://host:9090"), HasSubstr("is encrypted"));
  EXPECT_THAT(Parts(""), HasSubstr("names no host"));
  EXPECT_THAT(Parts("/metrics"), HasSubstr("names no host"));
  EXPECT_THAT(Parts("host:0"), HasSubstr("no port"));
  EXPECT_THAT(Parts("host:http"), HasSubstr("no port"));
  EXPECT_THAT(Parts("host:99999"), HasSubstr("no port"));
  EXPECT_THAT(Parts("host:90/\r\nX: y"), HasSubstr("letters"));
}

TEST(HttpGetTest, NobodyThereIsSaid) {
  // Port 1 is nobody's.
  const auto page = HttpGet({"127.0.0.1", "1", "/metrics"}, absl::Seconds(5));
  EXPECT_TRUE(absl::IsUnavailable(page.status())) << page.status();
  EXPECT_THAT(std::string(page.status().message()),
              HasSubstr("http://127.0.0.1:1/metrics"));
}

}  // namespace
}  // namespace steadystate::client::prometheus_text_test
