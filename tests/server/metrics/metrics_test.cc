// Goal: the table is what is exported, and what is counted is what is shown.
#include "server/metrics/metrics.h"

#include <chrono>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/error.h"
#include "server/metrics/exposer.h"
#include "server/metrics/table.h"

namespace steadystate {
namespace {

using testing::HasSubstr;

// The value of a series in a text exposition, or -1.
double Value(const std::string& text, const std::string& series) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    double value = -1;
    if (absl::StartsWith(line, series + " ") &&
        absl::SimpleAtod(line.substr(series.size() + 1), &value)) {
      return value;
    }
  }
  return -1;
}

size_t SeriesCount(const std::string& text) {
  size_t count = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!line.empty() && line[0] != '#') ++count;
  }
  return count;
}

ModelInfoLabels Info() {
  ModelInfoLabels labels;
  labels.fingerprint = "abc";
  labels.weight_dtype = "f32";
  labels.state_dtype = "f32";
  labels.isa = "AVX2";
  labels.kernel_target = "AVX2";
  labels.onednn_version = "2.6.3";
  return labels;
}

TEST(MetricsTest, ExportsEveryRowOfTheTableAndNothingElse) {
  Metrics metrics("demo");
  metrics.SetModelInfo(Info());
  const std::string text = Exposition(metrics.collectables());
  std::set<std::string> shown;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words.size() >= 4 && words[1] == "TYPE") shown.insert(words[2]);
  }
  std::set<std::string> declared;
  for (const MetricRow& row : MetricTable()) declared.insert(row.name);
  EXPECT_EQ(shown, declared);
}

TEST(MetricsTest, ShowsZeroesBeforeAnythingHappens) {
  const std::string text = Exposition(Metrics("demo").collectables());
  EXPECT_EQ(Value(text,
                  "steadystate_tokens_total{kind=\"prompt\",model="
                  "\"demo\"}"),
            0);
  EXPECT_EQ(Value(text,
                  "steadystate_errors_total{model=\"demo\",reason="
                  "\"SESSION_BUSY\"}"),
            0);
  EXPECT_LT(SeriesCount(text), 1000u);
}

TEST(MetricsTest, CountsWhatItIsTold) {
  Metrics metrics("demo");
  metrics.SessionCreated();
  metrics.SessionEnded(SessionEnd::kExpired, absl::Seconds(61), 1000);
  metrics.SetSessions(3, 4);
  metrics.SetStateBytes(50, 200, 25);
  metrics.Rejected(Rejection::kStateBudget);
  metrics.Tokens(TokenKind::kGenerated, 17);
  metrics.Batch(64, 70);
  metrics.Cancelled(CancelStage::kQueued, CancelSource::kDeadline);
  metrics.ErrorAnswered("SESSION_BUSY");
  metrics.ErrorAnswered("never heard of");
  metrics.RequestFinished("steadystate.v1.GenerationService/Step",
                          absl::StatusCode::kAborted, absl::Milliseconds(2));
  metrics.RequestFinished("unknown/Method", absl::StatusCode::kOk,
                          absl::Milliseconds(2));
  const std::string text = Exposition(metrics.collectables());
  const auto model = [&text](absl::string_view name) {
    return Value(text, absl::StrCat(name, "{model=\"demo\"}"));
  };
  EXPECT_EQ(model("steadystate_sessions_created_total"), 1);
  EXPECT_EQ(model("steadystate_session_tokens_sum"), 1000);
  EXPECT_EQ(model("steadystate_state_pool_utilization_ratio"), 0.25);
  EXPECT_EQ(model("steadystate_batch_size_sum"), 64);
  EXPECT_EQ(model("steadystate_batch_rows_sum"), 70);
  EXPECT_EQ(Value(text, "steadystate_sessions{model=\"demo\",state=\"idle\"}"),
            4);
  EXPECT_EQ(Value(text,
                  "steadystate_errors_total{model=\"demo\",reason="
                  "\"OTHER\"}"),
            1);
  EXPECT_EQ(
      Value(text,
            "steadystate_request_duration_seconds_count{code=\"ABORTED\",method"
            "=\"steadystate.v1.GenerationService/Step\",model=\"demo\"}"),
      1);
  EXPECT_EQ(Value(text,
                  "steadystate_request_duration_seconds_count{code="
                  "\"OK\",method=\"other\",model=\"demo\"}"),
            1);
}

TEST(MetricsTest, ShowsTheProcess) {
  const std::string text = Exposition(Metrics("demo").collectables());
  EXPECT_GT(Value(text, "process_resident_memory_bytes"), 1e6);
  EXPECT_GT(Value(text, "process_open_fds"), 2);
  EXPECT_GE(Value(text, "process_cpu_seconds_total"), 0);
  EXPECT_GT(Value(text, "process_start_time_seconds"), 1.6e9);
  EXPECT_EQ(Value(text, "steadystate_log_lines_dropped_total{model=\"demo\"}"),
            0);
}

TEST(ExposerTest, PicksAFreePortAndRefusesATakenOne) {
  Metrics metrics("demo");
  const auto first = Exposer::Start("127.0.0.1:0", metrics);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_GT((*first)->port(), 0);
  const std::string taken = absl::StrCat("127.0.0.1:", (*first)->port());
  const auto second = Exposer::Start(taken, metrics);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(taken));
}

// How long an exposer takes to end.
std::chrono::steady_clock::duration TimeToEnd(const char* address) {
  Metrics metrics("demo");
  auto exposer = Exposer::Start(address, metrics);
  EXPECT_TRUE(exposer.ok()) << exposer.status();
  if (!exposer.ok()) return std::chrono::hours(1);
  const auto start = std::chrono::steady_clock::now();
  exposer->reset();
  return std::chrono::steady_clock::now() - start;
}

// A busy machine may take longer now and then.
TEST(ExposerTest, EndsAtOnce) {
  constexpr int kTries = 10;
  constexpr std::chrono::milliseconds kAtOnce(1500);
  for (const char* address : {"127.0.0.1:0", "0.0.0.0:0"}) {
    int tries = 1;
    while (tries <= kTries && TimeToEnd(address) >= kAtOnce) ++tries;
    EXPECT_LE(tries, kTries) << address;
  }
}

TEST(ExposerTest, RefusesMalformedAddresses) {
  Metrics metrics("demo");
  for (const char* address : {"", "localhost", ":9464", "h:x", "h:70000"}) {
    EXPECT_EQ(Exposer::Start(address, metrics).status().code(),
              absl::StatusCode::kInvalidArgument)
        << address;
  }
}

}  // namespace
}  // namespace steadystate
