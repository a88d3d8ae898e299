// Goal: a bidirectional pass computes phi(Q) (phi(K)^T V) over the whole
// sequence. Method: golden checkpoints with hidden vectors from a float64
// reference, in pieces of several sizes, with as many threads as there may be;
// models in which order matters must say so.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/thread_pool.h"
#include "nlohmann/json.hpp"
#include "server/model/model.h"
#include "server/model/workspace.h"
#include "tests/testing/npy.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::bidirectional_test {
namespace {

namespace fs = std::filesystem;

constexpr char kFolder[] = STEADYSTATE_SOURCE_DIR "/tests/golden/";
constexpr char kExpected[] = "/embed_bidirectional.npy";

// Relative RMS error with f32 weights, as for logits.
constexpr double kTolerance = 1e-5;

std::vector<std::string> Cases() {
  std::vector<std::string> cases;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    if (fs::exists(entry.path().string() + kExpected)) {
      cases.push_back(entry.path().filename());
    }
  }
  std::sort(cases.begin(), cases.end());
  return cases;
}

std::shared_ptr<const Model> Load(const std::string& name) {
  auto model =
      Model::Load({.path = kFolder + name, .weight_dtype = DType::kF32});
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : nullptr;
}

// Hidden vectors of a bidirectional pass in pieces of `piece` rows.
std::vector<float> RunPass(const Model& model,
                           const std::vector<int32_t>& tokens, size_t piece,
                           size_t threads) {
  const size_t D = model.description().hidden_size;
  ThreadPool pool(threads);
  Workspace workspace = model.MakeWorkspace(piece, pool);
  const AlignedFloats state(model.state_layout().bytes() / sizeof(float));
  std::vector<InputRow> inputs;
  for (const int32_t token : tokens) inputs.push_back({.token = token});
  std::vector<float> residual(tokens.size() * D);
  std::vector<float> hidden(tokens.size() * D);
  const auto each_piece = [&](const auto& run) {
    for (size_t at = 0; at < tokens.size(); at += piece) {
      run(at, std::min(piece, tokens.size() - at));
    }
  };
  each_piece([&](size_t at, size_t rows) {
    model.Embed({&inputs[at], rows}, &residual[at * D], workspace);
  });
  for (size_t layer = 0; layer < model.description().layers; ++layer) {
    for (const Pass pass : {Pass::kAbsorb, Pass::kRead}) {
      each_piece([&](size_t at, size_t rows) {
        const Segment segment = {
            .state = reinterpret_cast<std::byte*>(state.data()),
            .position = at,
            .rows = rows,
            .pass = pass};
        model.ForwardLayer(layer, {&segment, 1}, rows, &residual[at * D],
                           workspace);
      });
    }
  }
  each_piece([&](size_t at, size_t rows) {
    model.Finish(rows, &residual[at * D], &hidden[at * D], workspace);
  });
  return hidden;
}

double RelativeRmsError(const std::vector<float>& got,
                        const std::vector<double>& expected) {
  if (got.size() != expected.size()) return HUGE_VAL;
  double error = 0;
  double size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += std::pow(double{got[i]} - expected[i], 2);
    size += std::pow(expected[i], 2);
  }
  return std::sqrt(error / size);
}

class BidirectionalTest : public testing::TestWithParam<std::string> {};

TEST_P(BidirectionalTest, AgreesWithTheReferenceHoweverItIsCut) {
  const std::string path = kFolder + GetParam();
  const auto model = Load(GetParam());
  ASSERT_NE(model, nullptr);
  ASSERT_FALSE(model->FirstCausalLayer().has_value());
  const auto tokens =
      nlohmann::json::parse(ReadWholeFile(path + "/token_ids.json"))
          .get<std::vector<int32_t>>();
  const NpyArray expected = ReadNpy(path + kExpected);
  for (const size_t piece : {tokens.size(), size_t{1}, size_t{7}}) {
    const std::vector<float> hidden = RunPass(*model, tokens, piece, 1);
    const double error = RelativeRmsError(hidden, expected.values);
    std::printf("%s in pieces of %zu: error %.2e\n", GetParam().c_str(), piece,
                error);
    EXPECT_LE(error, kTolerance) << "in pieces of " << piece;
    EXPECT_EQ(RunPass(*model, tokens, piece, 2), hidden)
        << "in pieces of " << piece << ", with two threads";
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, BidirectionalTest, testing::ValuesIn(Cases()),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(CausalModelTest, ModelsInWhichOrderMattersSayWhere) {
  const struct {
    const char* name;
    size_t layer;
  } kCases[] = {{"gla", 0}, {"transformer", 0}, {"linear_attn-hybrid", 0}};
  for (const auto& [name, layer] : kCases) {
    const auto model = Load(name);
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(model->FirstCausalLayer(), layer) << name;
  }
}

}  // namespace
}  // namespace steadystate::bidirectional_test
