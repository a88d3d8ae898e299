// Goal: three forms of one report: for people in 80 columns, for programs, for
// spreadsheets. Method: a result made by hand, with the largest numbers too.
#include "client/cli/load_report.h"

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/load_figures.h"
#include "client/cli/load_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::client::load_report_test {
namespace {

using std::chrono::nanoseconds;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

LoadResult SomeResult() {
  LoadResult result;
  result.options.sessions = 64;
  result.options.streams = 4;
  result.model.set_name("models/demo");
  result.model.set_family("gla");
  result.model.set_parameter_count(3452448);
  result.model.set_weight_dtype("bf16");
  result.model.mutable_execution()->set_threads(2);
  result.window = absl::Seconds(10);
  result.sessions_created = result.sessions_left = 64;
  result.processors = 2;
  result.client_cpus = 0.25;
  Tally& tally = result.tally;
  tally.begun = 1300;
  tally.completed = 1290;
  tally.failed = 7;
  tally.cut = 3;
  tally.drawn_tokens = 41300;
  tally.absorbed = {60000, 0};
  tally.server_errors["SESSION_NOT_FOUND"] = 7;
  tally.client_errors["UNAVAILABLE"] = 2;
  tally.window_completed = 1000;
  tally.window_drawn_tokens = 32000;
  tally.window_prompt_tokens = 16000;
  tally.time_to_first_token.Record(nanoseconds(22400000), 1000);
  tally.inter_token.Record(nanoseconds(900), 30000);
  return result;
}

TEST(LoadReportTest, LatenciesHaveThreeDigitsAndAUnit) {
  EXPECT_EQ(FormatLatency(nanoseconds(0)), "0.00 us");
  EXPECT_EQ(FormatLatency(nanoseconds(1234)), "1.23 us");
  EXPECT_EQ(FormatLatency(nanoseconds(12345)), "12.3 us");
  EXPECT_EQ(FormatLatency(nanoseconds(123456)), "123 us");
  EXPECT_EQ(FormatLatency(nanoseconds(999499)), "999 us");
  EXPECT_EQ(FormatLatency(nanoseconds(999500)), "1.00 ms");
  EXPECT_EQ(FormatLatency(nanoseconds(9996000)), "10.0 ms");
  EXPECT_EQ(FormatLatency(nanoseconds(99960000)), "100 ms");
  EXPECT_EQ(FormatLatency(nanoseconds(999500000)), "1.00 s");
  EXPECT_EQ(FormatLatency(nanoseconds(61000000000)), "61.0 s");
}

TEST(LoadReportTest, CountsHaveTheirThousandsApart) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
  EXPECT_EQ(FormatCount(UINT64_MAX), "18,446,744,073,709,551,615");
}

TEST(LoadReportTest, TheTextSaysEverything) {
  EXPECT_EQ(FormatLoadText(SomeResult()),
            R"(model       demo: gla, 3,452,448 weights, bf16, 2 threads
load        64 sessions over 4 StreamStep streams
            16 prompt and 32 generated tokens a request
            closed loop; seed 1
measured    10.0 s after 2.0 s of warm-up

throughput        3200.0 generated tokens/s
                  1600.0 prompt tokens/s
                   100.0 requests/s

latency                   p50       p90       p99     p99.9       max    samples
time to first token   22.4 ms   22.4 ms   22.4 ms   22.4 ms   22.4 ms      1,000
inter-token           0.90 us   0.90 us   0.90 us   0.90 us   0.90 us     30,000

whole run          1,300 requests: 1,290 completed, 7 failed, 3 cut
                  41,300 tokens drawn
                  60,000 steadystate_tokens_total kind=prompt
                       0 steadystate_tokens_total kind=generated
server              not looked at: --metrics URL tells its processors and queue
errors                 7 SESSION_NOT_FOUND
                       2 UNAVAILABLE, not from the server
tester              0.25 of 2 processors used
)");
}

ServerUse SomeServer() {
  ServerUse server;
  server.cpus = 1.75;
  server.compute_threads = 2;
  server.queues = {{"decode", 0.0012, 0.0034}, {"embed", {}, {}}};
  server.peak_waiting = 12;
  server.samples = {{0.5, std::nullopt, 3}, {1, 1.5, 12}};
  return server;
}

TEST(LoadReportTest, TheTextSaysGoodputAndTheServer) {
  LoadResult result = SomeResult();
  result.options.slo = *ParseSlo("ttft:200ms,tpot:20ms");
  result.options.connections = 2;
  result.tally.request.Record(nanoseconds(30000000), 1000);
  result.tally.window_good = 980;
  result.server = SomeServer();
  const std::string text = FormatLoadText(result);
  EXPECT_THAT(text, HasSubstr("over 4 StreamStep streams, 2 connections"));
  EXPECT_THAT(text, HasSubstr(R"(
goodput             98.0 good requests/s
            98.00 % of 1,000 requests within ttft:200ms,tpot:20ms, 99 % wanted:
            missed
)"));
  EXPECT_THAT(text, HasSubstr(R"(
server              1.75 processors used, 2 compute threads
                      12 requests waited at most when looked at
                 1.20 ms waited before decode (p50), 3.40 ms (p99)
)"));
}

TEST(LoadReportTest, LengthsAndArrivalsAreSaidAsTheyWereGiven) {
  LoadResult result = SomeResult();
  result.options.prompt_tokens = *Lengths::Parse("lognormal:200:100:4000");
  result.options.generate_tokens = *Lengths::Parse("uniform:1:64");
  result.options.stages = *ParseStages("10s:5,30s:20");
  result.options.arrivals = ArrivalProcess::kConstant;
  const std::string text = FormatLoadText(result);
  EXPECT_THAT(text,
              HasSubstr("lognormal:200:100:4000 prompt and uniform:1:64"));
  EXPECT_THAT(text, HasSubstr("open loop in stages 10s:5,30s:20 (at equal"));
  const Json options = FormatLoadJson(result)["options"];
  EXPECT_EQ(options["loop"], "open");
  EXPECT_EQ(options["prompt_tokens"], 200);
  EXPECT_EQ(options["prompt_lengths"], "lognormal:200:100:4000");
  EXPECT_EQ(options["arrival_process"], "constant");
  EXPECT_EQ(options["stages"], "10s:5,30s:20");
}

TEST(LoadReportTest, TheTextFitsIn80Columns) {
  LoadResult result = SomeResult();
  result.options.sessions = 1000000;
  result.options.streams = 1024;
  result.options.prompt_tokens = 1048576;
  result.options.generate_tokens = 1000000000;
  result.options.rate = 123456.789;
  result.options.seed = UINT64_MAX;
  result.arrivals = 123456789;
  result.unsent = 1234567;
  result.peak_backlog = 1048576;
  result.send_lag.Record(nanoseconds(999000000), 99999999);
  result.client_cpus = 2;
  result.tally.begun = result.tally.completed = 999999999;
  result.tally.absorbed = {999999999999, 999999999999};
  result.options.slo = *ParseSlo("ttft:3599s,tpot:1234ms,e2e:86400s");
  result.server = SomeServer();
  const std::string text = FormatLoadText(result);
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    EXPECT_LE(line.size(), 80u) << line;
  }
  EXPECT_THAT(text, HasSubstr("INVALID     the tester itself sent late"));
  EXPECT_THAT(text, HasSubstr("note        the tester used 2.0 of 2"));
}

TEST(LoadReportTest, TheJsonHasASchemaAndSeconds) {
  const Json json = FormatLoadJson(SomeResult());
  EXPECT_EQ(json["schema"], "steadystate.load/1");
  EXPECT_EQ(json["tokens_per_second"], 3200);
  EXPECT_NEAR(json["latency_seconds"]["time_to_first_token"]["p99"], 0.0224,
              0.0224 * 0.01);
  EXPECT_EQ(json["latency_seconds"]["send_lag"], Json({{"samples", 0}}));
  EXPECT_EQ(json["totals"]["server_tokens"]["prompt"], 60000);
  EXPECT_EQ(json["totals"]["server_errors"], Json({{"SESSION_NOT_FOUND", 7}}));
  EXPECT_EQ(json["totals"]["client_errors"], Json({{"UNAVAILABLE", 2}}));
  EXPECT_EQ(json["valid"], true);
  EXPECT_EQ(json["goodput"], Json());
  EXPECT_EQ(json["server"], Json());
}

TEST(LoadReportTest, TheJsonHasGoodputServerAndTimeline) {
  LoadResult result = SomeResult();
  result.options.slo = *ParseSlo("ttft:200ms");
  result.tally.request.Record(nanoseconds(30000000), 1000);
  result.tally.window_good = 980;
  result.server = SomeServer();
  result.tally.timeline.At(std::chrono::milliseconds(300)).drawn_tokens = 7;
  const Json json = FormatLoadJson(result);
  EXPECT_EQ(json["options"]["slo"], "ttft:200ms");
  EXPECT_EQ(json["goodput"]["requests_per_second"], 98);
  EXPECT_EQ(json["goodput"]["attainment"], 0.98);
  EXPECT_EQ(json["goodput"]["met"], false);
  EXPECT_EQ(json["server"]["cpus"], 1.75);
  EXPECT_EQ(json["server"]["queue_seconds"]["decode"]["p99"], 0.0034);
  EXPECT_EQ(json["server"]["queue_seconds"]["embed"]["p99"], Json());
  EXPECT_EQ(json["server"]["samples"][1]["waiting"], 12);
  EXPECT_EQ(json["timeline"]["slot_seconds"], 0.25);
  EXPECT_EQ(json["timeline"]["slots"][1]["drawn_tokens"], 7);
}

SweepResult SomeSweep() {
  SweepResult sweep;
  sweep.spec = *ParseSweep("sessions:32,64");
  sweep.repeat = 2;
  for (const double value : {32.0, 64.0}) {
    LoadResult run = SomeResult();
    run.options.sessions = static_cast<uint64_t>(value);
    SweepPoint point{value, {run, run}};
    point.runs[1].tally.window_drawn_tokens = 34000;
    sweep.points.push_back(std::move(point));
  }
  sweep.points[1].runs[0].tally.window_unanswered = 1;
  sweep.knee = FindKnee(sweep);
  return sweep;
}

TEST(LoadReportTest, ASweepHasALineForEachPointAndItsKnee) {
  const std::string text = FormatSweepText(SomeSweep());
  EXPECT_THAT(text, HasSubstr(R"(
        32      3300.0     100.0   22.4 ms   22.4 ms   0.00 us           knee
        64      3300.0     100.0   22.4 ms   22.4 ms   0.00 us           INVALID

knee        sessions 32: the fewest sessions with 95 % of the highest throughput
)"));
  EXPECT_THAT(text, HasSubstr("knee: mean of 2 runs"));
  EXPECT_THAT(text, HasSubstr(" 3300.00 +- 1270.60 generated tokens/s\n"));
  EXPECT_THAT(text, HasSubstr("INVALID     64: 1 requests that were to be"));
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    EXPECT_LE(line.size(), 80u) << line;
  }
}

TEST(LoadReportTest, ASweepsJsonHasTheReportOfEachRun) {
  const Json json = FormatSweepJson(SomeSweep());
  EXPECT_EQ(json["schema"], "steadystate.load_sweep/1");
  EXPECT_EQ(json["variable"], "sessions");
  EXPECT_EQ(json["knee"]["value"], 32);
  ASSERT_EQ(json["points"].size(), 2u);
  const Json& point = json["points"][0];
  EXPECT_EQ(point["holds"], true);
  EXPECT_EQ(json["points"][1]["holds"], false);
  EXPECT_EQ(point["summary"]["tokens_per_second"]["mean"], 3300);
  EXPECT_NEAR(point["summary"]["tokens_per_second"]["half_width_95"], 1270.6,
              0.1);
  ASSERT_EQ(point["runs"].size(), 2u);
  EXPECT_EQ(point["runs"][1]["schema"], "steadystate.load/1");
  EXPECT_EQ(point["runs"][1]["tokens_per_second"], 3400);
}

TEST(LoadReportTest, ASweepsCsvHasOneLineOfNames) {
  const std::vector<std::string> lines =
      absl::StrSplit(FormatSweepCsv(SomeSweep()), '\n');
  ASSERT_THAT(lines, SizeIs(6));
  EXPECT_THAT(lines[0], HasSubstr("rpc,loop,sessions,"));
  EXPECT_THAT(lines[4], HasSubstr("StreamStep,closed,64,"));
}

TEST(LoadReportTest, TheCsvsFirstColumnsStayWhatTheyWere) {
  const std::vector<std::string> lines =
      absl::StrSplit(FormatLoadCsv(SomeResult()), '\n');
  EXPECT_THAT(
      lines[0],
      StartsWith("rpc,loop,sessions,streams,prompt_tokens,generate_tokens,rate,"
                 "warmup_seconds,duration_seconds,seed,measured_seconds,"
                 "interrupted,valid,tokens_per_second,"));
  EXPECT_THAT(lines[0], HasSubstr(",server_generated_tokens,errors,client_cpus,"
                                  "connections,prompt_lengths,"));
}

TEST(LoadReportTest, CsvFieldsWithCommasAreQuoted) {
  LoadResult result = SomeResult();
  result.options.slo = *ParseSlo("ttft:200ms,tpot:20ms");
  EXPECT_THAT(FormatLoadCsv(result), HasSubstr(",\"ttft:200ms,tpot:20ms\","));
}

TEST(LoadReportTest, TheCsvHasAsManyValuesAsNames) {
  const std::vector<std::string> lines =
      absl::StrSplit(FormatLoadCsv(SomeResult()), '\n');
  ASSERT_THAT(lines, SizeIs(3));
  const std::vector<std::string> names = absl::StrSplit(lines[0], ',');
  const std::vector<std::string> values = absl::StrSplit(lines[1], ',');
  ASSERT_EQ(names.size(), values.size());
  std::map<std::string, std::string> row;
  for (size_t i = 0; i < names.size(); ++i) row[names[i]] = values[i];
  EXPECT_THAT(row, SizeIs(names.size()));
  EXPECT_EQ(row["sessions"], "64");
  EXPECT_EQ(row["tokens_per_second"], "3200.0");
  EXPECT_EQ(row["errors"], "SESSION_NOT_FOUND=7 UNAVAILABLE=2");
  EXPECT_EQ(row["server_prompt_tokens"], "60000");
  EXPECT_EQ(row["interrupted"], "false");
  EXPECT_EQ(row["valid"], "true");
  EXPECT_EQ(row["inter_token_samples"], "30000");
  EXPECT_EQ(row["send_lag_samples"], "0");
  EXPECT_EQ(row["send_lag_p99_seconds"], "");
  EXPECT_EQ(row["send_lag_max_seconds"], "");
  EXPECT_EQ(row["unanswered"], "0");
  EXPECT_EQ(lines[2], "");
}

}  // namespace
}  // namespace steadystate::client::load_report_test
