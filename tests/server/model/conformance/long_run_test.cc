// Goal: no family loses its footing over long sequences: nothing becomes
// infinite or no number when gates saturate, and rounding does not add up to
// more than the tolerance. Method: random tokens, as many as the model's cap
// lets in; checkpoints whose projections are multiplied until every gate,
// decay and feature saturates.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "kernels/dtype.h"
#include "server/checkpoint/checkpoint.h"
#include "tests/server/model/conformance/sequence.h"
#include "tests/testing/checkpoint_writer.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::long_run_test {
namespace {

constexpr size_t kSaturatedTokens = 10'000;
constexpr size_t kLongTokens = 100'000;
constexpr double kTolerance = 1e-5;

// Multiplies projections; the gates' arguments become this much larger.
constexpr float kSaturation = 30;

class LongRunTest : public testing::TestWithParam<std::string> {
 protected:
  // `wanted`, or what softmax layers hold.
  static size_t Length(const Model& model, size_t wanted) {
    const uint64_t cap = model.state_layout().context_cap();
    return cap == 0 ? wanted : std::min<size_t>(wanted, cap);
  }
};

INSTANTIATE_TEST_SUITE_P(Families, LongRunTest,
                         testing::ValuesIn(AllFamilies()),
                         [](const auto& instance) { return instance.param; });

// The checkpoint with every matrix inside the layers multiplied.
void WriteSaturated(const std::string& from, const TempDirectory& to) {
  const auto checkpoint = Checkpoint::Open(from);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  std::map<std::string, TensorContents> tensors;
  int multiplied = 0;
  for (const auto& [name, stored] : checkpoint->tensors()) {
    DType dtype = DType::kF32;
    if (stored->dtype == "F16") dtype = DType::kF16;
    if (stored->dtype == "BF16") dtype = DType::kBf16;
    std::vector<float> values(stored->bytes / SizeOf(dtype));
    ConvertToF32({stored->data, dtype}, 0, values.size(), values.data());
    if (stored->shape.size() == 2 && absl::EndsWith(name, ".weight") &&
        !absl::StrContains(name, "embed") && name != "lm_head.weight") {
      for (float& value : values) value *= kSaturation;
      ++multiplied;
    }
    tensors[name] = {
        .dtype = DType::kF32, .shape = stored->shape, .values = values};
  }
  EXPECT_GE(multiplied, 4) << "two projections in each of two layers";
  to.Write("config.json", checkpoint->config_text());
  to.Write("model.safetensors", SafetensorsBytes(tensors));
}

TEST_P(LongRunTest, SaturatedGatesLeaveEverythingFinite) {
  const TempDirectory directory;
  ASSERT_NO_FATAL_FAILURE(WriteSaturated(GoldenFolder(GetParam()), directory));
  const auto model = LoadGolden(directory.path());
  const size_t length = Length(*model, kSaturatedTokens);
  const std::vector<int32_t> tokens = RandomTokens(*model, length, 6);
  Runner runner(*model);
  Sequence sequence(*model);
  const size_t pieces[] = {250};
  const std::vector<float> logits = runner.Feed(sequence, tokens, pieces);
  const auto bad = std::find_if(logits.begin(), logits.end(), [](float logit) {
    return !std::isfinite(logit);
  });
  EXPECT_EQ(bad, logits.end())
      << "after token "
      << (bad - logits.begin()) /
             static_cast<ptrdiff_t>(model->description().vocab_size)
      << " of " << length;
}

TEST_P(LongRunTest, RoundingDoesNotAddUp) {
  const auto model = LoadGolden(GoldenFolder(GetParam()));
  const std::vector<int32_t> tokens =
      RandomTokens(*model, Length(*model, kLongTokens), 7);
  Runner runner(*model);
  Sequence one(*model);
  Sequence other(*model);
  const size_t even[] = {256};
  const std::vector<float> expected = runner.FeedForLast(one, tokens, even);
  const std::vector<float> got =
      runner.FeedForLast(other, tokens, RandomPieces(100, 256, 8));
  EXPECT_EQ(one.position(), other.position());
  EXPECT_LE(RelativeRmsDifference(got, expected), kTolerance);
}

}  // namespace
}  // namespace steadystate::long_run_test
