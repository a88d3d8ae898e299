// Goal: the table is what is exported, and what is counted is what is shown.
#include "server/metrics/metrics.h"

#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/error.h"
#include "server/metrics/scrape_server.h"
#include "server/metrics/table.h"

namespace steadystate::metrics_test {
namespace {

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
  metrics.SetSessions(3, 4, 5);
  metrics.SetCheckpoints(6, 7);
  metrics.SetKeptPrompts(8, 9);
  metrics.Forked();
  metrics.SlotAwaited();
  metrics.SetDrainEstimate(absl::Milliseconds(1500));
  metrics.SetStateBytes(50, 200, 25);
  metrics.Rejected(Rejection::kStateBudget);
  metrics.Tokens(TokenKind::kGenerated, 17);
  metrics.Batch(64, 70);
  metrics.Generated(FinishReason::kStopString, 300, 21);
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
  EXPECT_EQ(
      Value(text, "steadystate_checkpoints{model=\"demo\",tier=\"memory\"}"),
      6);
  EXPECT_EQ(
      Value(text, "steadystate_kept_prompts{model=\"demo\",tier=\"store\"}"),
      9);
  EXPECT_EQ(Value(text,
                  "steadystate_generations_total{finish_reason="
                  "\"stop_string\",model=\"demo\"}"),
            1);
  EXPECT_EQ(model("steadystate_prompt_length_tokens_sum"), 300);
  EXPECT_EQ(model("steadystate_generation_length_tokens_sum"), 21);
  EXPECT_EQ(model("steadystate_forks_total"), 1);
  EXPECT_EQ(model("steadystate_rewinds_total"), 0);
  EXPECT_EQ(model("steadystate_slot_waits_total"), 1);
  EXPECT_EQ(model("steadystate_drain_estimate_seconds"), 1.5);
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

}  // namespace
}  // namespace steadystate::metrics_test
