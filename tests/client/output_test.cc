// Goal: messages print as JSON and as lines, nothing lost; .npy files are such
// that NumPy reads them, whole or visibly empty. Method: messages of the
// contract with every kind of field; bytes read back by the rules of the
// format.
#include "client/cli/output.h"

#include <cstdio>
#include <cstring>
#include <vector>

#include "client/cli/input.h"
#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "gtest/gtest.h"
#include "steadystate/error.h"
#include "steadystate/v1/generation.pb.h"
#include "steadystate/v1/model.pb.h"
#include "steadystate/v1/session.pb.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::client::output_test {
namespace {

using testing::HasSubstr;

v1::Session SomeSession() {
  v1::Session session;
  session.set_name("sessions/a");
  session.set_position(18446744073709551615u);
  session.set_state_bytes(4096);
  session.set_state(v1::Session::IDLE);
  session.mutable_create_time()->set_seconds(1767225600);
  session.mutable_create_time()->set_nanos(500000000);
  session.mutable_ttl()->set_seconds(90);
  (*session.mutable_labels())["user"] = "ada";
  return session;
}

TEST(ToJsonTest, FieldsHaveTheNamesAndKindsOfTheContract) {
  EXPECT_EQ(
      ToJson(SomeSession()).dump(),
      R"({"name":"sessions/a","model":"","position":18446744073709551615,)"
      R"("state_bytes":4096,"state":"IDLE",)"
      R"("create_time":"2026-01-01T00:00:00.5+00:00",)"
      R"("ttl":90.0,"labels":{"user":"ada"},"uid":"",)"
      R"("other_numerics":false,)"
      R"("durability":"DURABILITY_UNSPECIFIED","earliest_position":0,)"
      R"("state_not_finite":false,"state_norms":[],"ephemeral":false,)"
      R"("unusable":"","context_cap":0})");
}

TEST(ToJsonTest, RepeatedAndNestedMessagesAreArraysAndObjects) {
  v1::Model model;
  model.add_eos_tokens(2);
  auto* slot = model.add_state_slots();
  slot->set_name("S");
  slot->add_shape(4);
  slot->add_shape(8);
  model.mutable_execution()->set_threads(2);
  const Json json = ToJson(model);
  EXPECT_EQ(json["eos_tokens"].dump(), "[2]");
  EXPECT_EQ(json["state_slots"][0]["shape"].dump(), "[4,8]");
  EXPECT_EQ(json["state_slots"][0]["grows"], false);
  EXPECT_EQ(json["execution"]["threads"], 2);
}

TEST(ToJsonTest, OptionalFieldsThatAreNotSetAreLeftOut) {
  v1::Sampling sampling;
  sampling.set_temperature(0);
  (*sampling.mutable_logit_bias())[7] = -1.5f;
  EXPECT_EQ(ToJson(sampling).dump(),
            R"({"temperature":0.0,"logit_bias":{"7":-1.5}})");
}

TEST(FormatLinesTest, AlignsMembersAndLeavesOutWhatIsLong) {
  EXPECT_EQ(FormatLines(Json{{"name", "a b"},
                             {"count", 7},
                             {"ids", {1, 2}},
                             {"text", "a\nb"},
                             {"slots", {{{"x", 1}}, {{"x", 2}}}}}),
            "name   a b\ncount  7\nids    [1,2]\n"
            "text   3 bytes (see --json)\nslots  2 (see --json)\n");
}

class NpyWriterTest : public testing::Test {
 protected:
  NpyWriter Open(NpyWriter::Shape shape) {
    return *NpyWriter::Open(path_, shape);
  }

  // The header's text; checks what the format asks of it.
  std::string Header() {
    const std::string file = *ReadFile(path_);
    EXPECT_EQ(file.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
    const size_t length = static_cast<unsigned char>(file[8]) +
                          size_t{256} * static_cast<unsigned char>(file[9]);
    EXPECT_EQ((10 + length) % 64, 0u);
    const std::string header = file.substr(10, length);
    EXPECT_EQ(header.back(), '\n');
    data_ = file.substr(10 + length);
    return header;
  }

  std::vector<float> Data() {
    std::vector<float> values(data_.size() / sizeof(float));
    std::memcpy(values.data(), data_.data(), data_.size());
    return values;
  }

  const TempDirectory directory_;
  const std::string path_ = directory_.path() + "/matrix.npy";
  std::string data_;
};

TEST_F(NpyWriterTest, WritesAMatrixRowByRow) {
  NpyWriter writer = Open(NpyWriter::Shape::kMatrix);
  const std::vector<float> rows = {1.5f, -2.0f, 3.25f, 4.0f, 5.0f, -0.125f};
  ASSERT_TRUE(writer.Append({rows.data(), 3}).ok());
  ASSERT_TRUE(writer.Append({rows.data() + 3, 3}).ok());
  ASSERT_TRUE(writer.Finish().ok());
  EXPECT_THAT(Header(), testing::StartsWith("{'descr': '<f4', 'fortran_order': "
                                            "False, 'shape': (2, 3), }"));
  EXPECT_EQ(Data(), rows);
}

TEST_F(NpyWriterTest, WritesAVector) {
  NpyWriter writer = Open(NpyWriter::Shape::kVector);
  for (const float value : {1.0f, 2.0f, 3.0f}) {
    ASSERT_TRUE(writer.Append({&value, 1}).ok());
  }
  ASSERT_TRUE(writer.Finish().ok());
  EXPECT_THAT(Header(), HasSubstr("'shape': (3,), }"));
  EXPECT_EQ(Data(), (std::vector<float>{1.0f, 2.0f, 3.0f}));
}

TEST_F(NpyWriterTest, AFileThatIsNotFinishedHasNoRows) {
  {
    NpyWriter writer = Open(NpyWriter::Shape::kMatrix);
    const float row[2] = {1.0f, 2.0f};
    ASSERT_TRUE(writer.Append(row).ok());
  }
  EXPECT_THAT(Header(), HasSubstr("'shape': (0, 0), }"));
}

TEST_F(NpyWriterTest, RefusesRowsOfAnotherLength) {
  NpyWriter matrix = Open(NpyWriter::Shape::kMatrix);
  EXPECT_TRUE(absl::IsInvalidArgument(matrix.Append({})));
  const float row[3] = {1.0f, 2.0f, 3.0f};
  ASSERT_TRUE(matrix.Append(row).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(matrix.Append({row, 2})));
  NpyWriter vector = Open(NpyWriter::Shape::kVector);
  EXPECT_TRUE(absl::IsInvalidArgument(vector.Append(row)));
}

TEST_F(NpyWriterTest, NamesAPathThatCannotBeCreated) {
  const auto writer =
      NpyWriter::Open("/no/such/folder/x.npy", NpyWriter::Shape::kMatrix);
  EXPECT_THAT(std::string(writer.status().message()),
              HasSubstr("/no/such/folder/x.npy"));
}

TEST_F(NpyWriterTest, AFullDiskIsAnError) {
  auto writer = NpyWriter::Open("/dev/full", NpyWriter::Shape::kMatrix);
  if (!writer.ok()) return;
  const std::vector<float> row(1 << 16);
  const absl::Status appended = writer->Append(row);
  EXPECT_TRUE(!appended.ok() || !writer->Finish().ok());
}

// Goal: a bar that fits its terminal, does not flicker and leaves nothing
// behind. Method: a terminal and a clock that belong to the test.

using testing::IsEmpty;
using testing::SizeIs;

constexpr Progress kHalf{"score", "tokens", 500, 1000, absl::Seconds(10)};

TEST(CheckWritableTest, TellsBeforehandWhatCannotBeWritten) {
  const TempDirectory directory;
  const std::string path = directory.path() + "/report.html";
  EXPECT_TRUE(CheckWritable(path).ok());
  // Nothing is left of that, and what is there stays.
  EXPECT_EQ(std::fopen((path + ".part").c_str(), "rb"), nullptr);
  directory.Write("report.html", "old");
  EXPECT_TRUE(CheckWritable(path).ok());
  EXPECT_EQ(*ReadFile(path), "old");
  const absl::Status refused = CheckWritable(directory.path() + "/no/page");
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(refused.message(), HasSubstr("/no/page: No such file"));
}

TEST(DescribedTest, SaysOnceWhenToTryAgain) {
  google::rpc::Status status;
  status.set_code(grpc::StatusCode::UNAVAILABLE);
  google::rpc::ErrorInfo info;
  info.set_reason("STORE_UNAVAILABLE");
  info.set_domain("steadystate");
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(1);
  status.add_details()->PackFrom(info);
  status.add_details()->PackFrom(retry);
  status.set_message("the disk is full");
  EXPECT_EQ(Described(ToStatus(status)),
            "UNAVAILABLE STORE_UNAVAILABLE: the disk is full (try again in "
            "1s)");
  status.set_message("the disk is full; try again");
  EXPECT_EQ(Described(ToStatus(status)),
            "UNAVAILABLE STORE_UNAVAILABLE: the disk is full; try again (in "
            "1s)");
}

TEST(FormatProgressTest, ShowsEverythingWhereThereIsRoom) {
  EXPECT_EQ(FormatProgress(kHalf, 100),
            "score  50% [####################                    ] 500/1000 "
            "tokens  50.0/s  0:10");
}

TEST(FormatProgressTest, IsNeverWiderThanTheTerminal) {
  for (size_t columns = 0; columns < 200; ++columns) {
    EXPECT_LE(FormatProgress(kHalf, columns).size(), columns);
  }
}

TEST(FormatProgressTest, LeavesTheBarOutFirst) {
  EXPECT_EQ(FormatProgress(kHalf, 45),
            "score  50% 500/1000 tokens  50.0/s  0:10");
  EXPECT_EQ(FormatProgress(kHalf, 20), "score  50%");
}

TEST(FormatProgressTest, RatesAndTimesHaveUnits) {
  EXPECT_THAT(
      FormatProgress({"p", "tokens", 25000, 100000000, absl::Seconds(2)}, 80),
      HasSubstr("12.5k/s  2:13:18"));
  EXPECT_THAT(
      FormatProgress({"p", "tokens", 5000000, 5000000, absl::Seconds(2)}, 80),
      HasSubstr("2.5M/s  0:00"));
}

TEST(FormatProgressTest, NothingDoneHasNoRate) {
  EXPECT_THAT(FormatProgress({"p", "tokens", 0, 10, absl::Seconds(1)}, 80),
              testing::EndsWith("0/10 tokens"));
  EXPECT_THAT(FormatProgress({"p", "tokens", 0, 0, absl::Seconds(1)}, 80),
              HasSubstr("100%"));
}

TEST(FormatProgressTest, ANoteStandsInPlaceOfTheRate) {
  Progress progress = kHalf;
  progress.note = "12 errors";
  EXPECT_EQ(FormatProgress(progress, 60),
            "score  50% [#######       ] 500/1000 tokens  12 errors  0:10");
}

TEST(FormatProgressTest, AnEndlessTaskHasNoBar) {
  Progress progress{"load", "s", 12, Progress::kEndless, absl::Seconds(12)};
  EXPECT_EQ(FormatProgress(progress, 80), "load  12 s");
  progress.note = "34 tokens/s";
  EXPECT_EQ(FormatProgress(progress, 80), "load  12 s  34 tokens/s");
  EXPECT_EQ(FormatProgress(progress, 10), "load  12 s");
}

class ProgressBarTest : public testing::Test {
 protected:
  ProgressBar::Terminal Terminal() {
    return {[this](absl::string_view text) { drawn_.emplace_back(text); },
            [] { return size_t{40}; }, [this] { return now_; }};
  }

  std::chrono::steady_clock::time_point now_;
  std::vector<std::string> drawn_;
};

TEST_F(ProgressBarTest, ShortTasksDrawNothing) {
  {
    ProgressBar bar("score", "tokens", 100, Terminal());
    now_ += std::chrono::milliseconds(200);
    bar.Update(100);
  }
  EXPECT_THAT(drawn_, IsEmpty());
}

TEST_F(ProgressBarTest, DrawsAtMostTenTimesASecondAndErasesAtTheEnd) {
  {
    ProgressBar bar("score", "tokens", 1000, Terminal());
    for (size_t i = 0; i <= 1000; ++i) {
      bar.Update(i);
      now_ += std::chrono::milliseconds(1);
    }
  }
  // At 300, 400, ... 1000 ms, and the end.
  EXPECT_THAT(drawn_, SizeIs(9));
  for (const std::string& text : drawn_) {
    EXPECT_THAT(text, testing::StartsWith("\r\033[K"));
    EXPECT_LE(text.size(), 4u + 39u);
  }
  EXPECT_EQ(drawn_.back(), "\r\033[K");
}

TEST_F(ProgressBarTest, WithoutATerminalNothingIsDrawn) {
  {
    ProgressBar::Terminal terminal = Terminal();
    terminal.write = nullptr;
    ProgressBar bar("score", "tokens", 10, terminal);
    now_ += std::chrono::seconds(10);
    bar.Update(5);
  }
  EXPECT_THAT(drawn_, IsEmpty());
}

}  // namespace
}  // namespace steadystate::client::output_test
