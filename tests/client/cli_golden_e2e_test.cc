// Goal: what the command line writes for comparison with other libraries is
// right to the last row, whatever the length of the input. Method: a small
// checkpoint with float64 reference logits; the model takes token ids only.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/cli_fixture.h"
#include "tests/testing/npy.h"

namespace steadystate::cli_golden_e2e_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// The numbers of a float32 file whose header says `shape`.
std::vector<float> ReadFloats(const std::string& path,
                              const std::string& shape) {
  const std::string bytes = ReadWholeFile(path);
  constexpr size_t kHeaderBytes = 128;
  EXPECT_THAT(bytes.substr(0, kHeaderBytes), HasSubstr(shape));
  std::vector<float> values((bytes.size() - kHeaderBytes) / sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) {
    std::memcpy(&values[i], bytes.data() + kHeaderBytes + i * sizeof(float),
                sizeof(float));
  }
  return values;
}

// log softmax of a row of logits, at one token.
double Logprob(const double* row, size_t width, int32_t token) {
  const double top = *std::max_element(row, row + width);
  double sum = 0;
  for (size_t i = 0; i < width; ++i) sum += std::exp(row[i] - top);
  return row[token] - top - std::log(sum);
}

class CliGoldenTest : public CliFixture {
 protected:
  CliGoldenTest() : CliFixture("tests/golden/gla") {}

  const std::string golden_ = absl::StrCat(kRoot, "/tests/golden/gla");
  const std::string out_ = directory_.path() + "/out.npy";
};

TEST_F(CliGoldenTest, LogitsAndLogprobsAreTheReferences) {
  const NpyArray expected = ReadNpy(golden_ + "/logits.npy");
  const std::string logprobs = directory_.path() + "/logprobs.npy";
  const nlohmann::json json = Json(absl::StrCat(
      "score --token_ids_file ", golden_, "/token_ids.json --logits_out ", out_,
      " --logprobs_out ", logprobs));
  ASSERT_EQ(json["tokens"], expected.shape[0]);
  const size_t width = expected.shape[1];

  const std::vector<float> logits = ReadFloats(out_, "'shape': (40, 97), ");
  ASSERT_EQ(logits.size(), expected.values.size());
  double difference = 0;
  double size = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    difference += std::pow(double{logits[i]} - expected.values[i], 2);
    size += std::pow(expected.values[i], 2);
  }
  EXPECT_LE(std::sqrt(difference / size), 1e-5);

  const auto ids =
      nlohmann::json::parse(ReadWholeFile(golden_ + "/token_ids.json"));
  const std::vector<float> scored = ReadFloats(logprobs, "'shape': (40,), ");
  ASSERT_EQ(scored.size(), ids.size());
  EXPECT_TRUE(std::isnan(scored[0]));
  double total = 0;
  for (size_t t = 1; t < ids.size(); ++t) {
    const double logprob =
        Logprob(expected.values.data() + (t - 1) * width, width, ids[t]);
    EXPECT_NEAR(double{scored[t]}, logprob, 1e-4) << "token " << t;
    total += logprob;
  }
  EXPECT_NEAR(json["total_logprob"].get<double>(), total, 1e-3);
  EXPECT_FALSE(json.contains("bits_per_byte"));
}

class CliEmbedTest : public CliFixture {
 protected:
  CliEmbedTest() : CliFixture("tests/golden/linear_attn-elu-norm") {}

  const std::string golden_ =
      absl::StrCat(kRoot, "/tests/golden/linear_attn-elu-norm");
  const std::string out_ = directory_.path() + "/out.npy";
};

TEST_F(CliEmbedTest, HiddenVectorsAreTheReferences) {
  const NpyArray expected = ReadNpy(golden_ + "/embed_bidirectional.npy");
  const std::string ids = absl::StrCat("embed --token_ids_file ", golden_,
                                       "/token_ids.json --bidirectional");
  const nlohmann::json json = Json(absl::StrCat(ids, " --out ", out_));
  EXPECT_EQ(json["tokens"], expected.shape[0]);
  const std::vector<float> hidden =
      ReadFloats(out_, absl::StrCat("'shape': (", expected.shape[0], ", ",
                                    expected.shape[1], "), "));
  ASSERT_EQ(hidden.size(), expected.values.size());
  double difference = 0;
  double size = 0;
  for (size_t i = 0; i < hidden.size(); ++i) {
    difference += std::pow(double{hidden[i]} - expected.values[i], 2);
    size += std::pow(expected.values[i], 2);
  }
  EXPECT_LE(std::sqrt(difference / size), 1e-5);
  const nlohmann::json last = Json(ids + " --pooling last");
  ASSERT_EQ(last["hidden"].size(), 1u);
  EXPECT_EQ(last["hidden"][0].size(), expected.shape[1]);
  EXPECT_EQ(last["hidden"][0][0].get<float>(),
            hidden[hidden.size() - expected.shape[1]]);
  EXPECT_EQ(Print("session list"), "");
  EXPECT_THAT(Fail(2, ids + " --pooling best"),
              HasSubstr("none, mean or last"));
  EXPECT_THAT(Print("model"), HasSubstr("state of linear_attn"));
}

TEST_F(CliGoldenTest, LongInputsAreOneContinuousStream) {
  // Three requests' worth, scored at once and then as two halves of a session.
  nlohmann::json ids;
  for (int i = 0; i < 20000; ++i) ids.push_back((i * i + i / 7) % 97);
  const std::string all = directory_.Write("all.json", ids.dump());
  const std::string first = directory_.Write(
      "first.json",
      nlohmann::json(std::vector<int>(ids.begin(), ids.begin() + 9000)).dump());
  const std::string second = directory_.Write(
      "second.json",
      nlohmann::json(std::vector<int>(ids.begin() + 9000, ids.end())).dump());

  const nlohmann::json whole = Json(
      absl::StrCat("score --token_ids_file ", all, " --logprobs_out ", out_));
  EXPECT_EQ(whole["tokens"], 20000);
  EXPECT_EQ(whole["scored_tokens"], 19999);
  EXPECT_EQ(whole["position"], 20000);
  const std::vector<float> logprobs = ReadFloats(out_, "'shape': (20000,), ");
  EXPECT_TRUE(std::isnan(logprobs[0]));
  EXPECT_FALSE(std::any_of(logprobs.begin() + 1, logprobs.end(),
                           [](float value) { return std::isnan(value); }));
  EXPECT_EQ(Print("session list"), "");

  Print("session create --id halves");
  const double total =
      Json("score --session halves --token_ids_file " + first)["total_logprob"]
          .get<double>() +
      Json("score --session halves --expected_position 9000 --token_ids_file " +
           second)["total_logprob"]
          .get<double>();
  EXPECT_NEAR(total, whole["total_logprob"].get<double>(),
              1e-5 * std::fabs(total));
  EXPECT_EQ(Json("session get halves")["position"], 20000);
}

TEST_F(CliGoldenTest, WithoutATokenizerTokenIdsArePrinted) {
  const std::string arguments =
      absl::StrCat("generate --token_ids_file ", golden_,
                   "/token_ids.json --temperature 0 --max_tokens 5 "
                   "--ignore_eos");
  const nlohmann::json json = Json(arguments);
  ASSERT_EQ(json["tokens"].size(), 5u);
  std::string ids;
  for (const auto& token : json["tokens"]) {
    absl::StrAppend(&ids, token.get<int>(), " ");
  }
  EXPECT_EQ(Print(arguments), ids);
  EXPECT_THAT(Fail(1, "generate --prompt a"),
              StartsWith("error: FAILED_PRECONDITION TOKENIZER_UNAVAILABLE: "));
}

TEST_F(CliGoldenTest, BadTokenIdsAreRefused) {
  const std::string beyond = directory_.Write("beyond.json", "[1, 97]");
  EXPECT_THAT(Fail(1, "score --token_ids_file " + beyond),
              StartsWith("error: INVALID_ARGUMENT TOKEN_OUT_OF_RANGE: "));
  const std::string text = directory_.Write("text.json", "[1, \"a\"]");
  EXPECT_THAT(Fail(2, "score --token_ids_file " + text),
              HasSubstr("element 1 of the token ids"));
}

TEST_F(CliGoldenTest, AFailedScoreLeavesAFileWithoutRows) {
  const std::string beyond = directory_.Write("beyond.json", "[1, 97]");
  Fail(1,
       absl::StrCat("score --token_ids_file ", beyond, " --logits_out ", out_));
  EXPECT_TRUE(ReadFloats(out_, "'shape': (0, 0), ").empty());
}

}  // namespace
}  // namespace steadystate::cli_golden_e2e_test
