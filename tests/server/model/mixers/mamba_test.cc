// Goal: Mamba-1's channels may be cut into any number of heads, its config is
// read as either library writes it, and bad values are refused by name. Method:
// a layer of 480 channels against its formula in double; golden weights with
// spoiled configs.
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/mixers/mixers.h"
#include "server/model/registry.h"
#include "tests/testing/checkpoint_writer.h"
#include "tests/testing/direct_session.h"
#include "tests/testing/golden_checkpoint.h"
#include "tests/testing/golden_options.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::mamba_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kSeed = 5;
constexpr size_t kD = 24, kE = 480, kN = 3, kRank = 2, kTaps = 2, kVocab = 7;

// A model of one layer with 480 channels: two heads of 240 columns.
CheckpointContents WideCheckpoint() {
  CheckpointContents contents;
  contents.config = {{"model_type", "mamba"},  {"hidden_size", kD},
                     {"num_hidden_layers", 1}, {"vocab_size", kVocab},
                     {"state_size", kN},       {"expand", kE / kD},
                     {"conv_kernel", kTaps},   {"time_step_rank", kRank}};
  std::mt19937_64 random(kSeed);
  const auto add = [&](const std::string& name, std::vector<size_t> shape,
                       float scale) {
    size_t count = 1;
    for (const size_t size : shape) count *= size;
    std::uniform_real_distribution<float> number(-scale, scale);
    std::vector<float> values(count);
    for (float& value : values) value = number(random);
    contents.tensors["backbone." + name] = {.shape = shape, .values = values};
  };
  add("embeddings.weight", {kVocab, kD}, 1);
  add("norm_f.weight", {kD}, 2);
  add("layers.0.norm.weight", {kD}, 2);
  add("layers.0.mixer.in_proj.weight", {2 * kE, kD}, 0.3f);
  add("layers.0.mixer.conv1d.weight", {kE, 1, kTaps}, 1);
  add("layers.0.mixer.conv1d.bias", {kE}, 0.5f);
  add("layers.0.mixer.x_proj.weight", {kRank + 2 * kN, kE}, 0.1f);
  add("layers.0.mixer.dt_proj.weight", {kE, kRank}, 1);
  add("layers.0.mixer.dt_proj.bias", {kE}, 1);
  add("layers.0.mixer.A_log", {kE, kN}, 1);
  add("layers.0.mixer.D", {kE}, 1);
  add("layers.0.mixer.out_proj.weight", {kD, kE}, 0.1f);
  return contents;
}

using Row = std::vector<double>;

// The same model in double, token by token.
class WideReference {
 public:
  explicit WideReference(const CheckpointContents& contents)
      : contents_(contents), window_(kE), h_(kE * kN) {}

  Row Step(size_t token) {
    const Row embedding = Tensor("embeddings.weight");
    const auto at = embedding.begin() + static_cast<ptrdiff_t>(token * kD);
    Row h(at, at + kD);
    const Row added = Mix(Norm(h, Tensor("layers.0.norm.weight")));
    for (size_t i = 0; i < kD; ++i) h[i] += added[i];
    return Times("embeddings.weight", Norm(h, Tensor("norm_f.weight")));
  }

 private:
  Row Tensor(const std::string& name) const {
    const auto& values = contents_.tensors.at("backbone." + name).values;
    return Row(values.begin(), values.end());
  }
  Row Mixer(const std::string& name) const {
    return Tensor("layers.0.mixer." + name);
  }
  Row Times(const std::string& name, const Row& x) const {
    const Row matrix = Tensor(name);
    Row y(matrix.size() / x.size());
    for (size_t i = 0; i < matrix.size(); ++i) {
      y[i / x.size()] += matrix[i] * x[i % x.size()];
    }
    return y;
  }
  static Row Norm(Row x, const Row& weight) {
    double sum = 0;
    for (const double value : x) sum += value * value;
    const double rms = std::sqrt(sum / static_cast<double>(x.size()) + 1e-5);
    for (size_t i = 0; i < x.size(); ++i) x[i] *= weight[i] / rms;
    return x;
  }
  static double Silu(double x) { return x / (1 + std::exp(-x)); }

  Row Mix(const Row& u) {
    const Row xz = Times("layers.0.mixer.in_proj.weight", u);
    const Row taps = Mixer("conv1d.weight"), bias = Mixer("conv1d.bias");
    Row x(kE);
    for (size_t e = 0; e < kE; ++e) {
      x[e] = Silu(taps[2 * e] * window_[e] + taps[2 * e + 1] * xz[e] + bias[e]);
      window_[e] = xz[e];
    }
    const Row low = Times("layers.0.mixer.x_proj.weight", x);
    const Row dt_raw = Times("layers.0.mixer.dt_proj.weight", {low[0], low[1]});
    const Row dt_bias = Mixer("dt_proj.bias"), A_log = Mixer("A_log");
    const Row skip = Mixer("D");
    Row y(kE);
    for (size_t e = 0; e < kE; ++e) {
      const double dt = std::log1p(std::exp(dt_raw[e] + dt_bias[e]));
      for (size_t n = 0; n < kN; ++n) {
        double& h = h_[e * kN + n];
        h *= std::exp(-dt * std::exp(A_log[e * kN + n]));
        h += dt * x[e] * low[kRank + n];
        y[e] += h * low[kRank + kN + n];
      }
      y[e] = (y[e] + skip[e] * x[e]) * Silu(xz[kE + e]);
    }
    return Times("layers.0.mixer.out_proj.weight", y);
  }

  const CheckpointContents& contents_;
  Row window_;  // the input before this one
  Row h_;       // f64[E, N]
};

TEST(MambaTest, ChannelsOfSeveralHeadsAgreeWithTheFormula) {
  SCOPED_TRACE(kSeed);
  const CheckpointContents contents = WideCheckpoint();
  const TempDirectory directory;
  WriteCheckpoint(contents, directory.path());
  const auto model =
      Model::Load({.path = directory.path(), .weight_dtype = DType::kF32});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->state_layout().slots()[1].shape,
              testing::ElementsAre(2, kN, kE / 2));
  const std::vector<int32_t> tokens = {3, 1, 4, 1, 5, 2, 6, 5, 3, 5};
  const std::vector<float> logits =
      DirectSession(**model, tokens.size(), 2).Feed(tokens);
  WideReference reference(contents);
  double error = 0, size = 0;
  for (size_t t = 0; t < tokens.size(); ++t) {
    const Row expected = reference.Step(static_cast<size_t>(tokens[t]));
    for (size_t i = 0; i < kVocab; ++i) {
      error += std::pow(
          static_cast<double>(logits[t * kVocab + i]) - expected[i], 2);
      size += expected[i] * expected[i];
    }
  }
  EXPECT_LT(std::sqrt(error / size), 3e-6);
}

TEST(MambaTest, DefaultsAreThoseOfTheLibraryThatWroteTheFile) {
  const auto read = [](absl::string_view text) {
    return ReadModelConfig(*Config::Parse(text, "config.json"));
  };
  const auto of_transformers = read(R"({"model_type": "mamba"})");
  ASSERT_TRUE(of_transformers.ok()) << of_transformers.status();
  EXPECT_EQ(of_transformers->hidden_size, 768u);
  EXPECT_EQ(of_transformers->layers.size(), 32u);
  EXPECT_EQ(of_transformers->vocab_size, 50280u);
  EXPECT_FLOAT_EQ(of_transformers->norm.eps, 1e-5f);
  const auto of_fla = read(R"({"model_type": "mamba", "dt_rank": "auto"})");
  ASSERT_TRUE(of_fla.ok()) << of_fla.status();
  EXPECT_EQ(of_fla->hidden_size, 2048u);
  EXPECT_EQ(of_fla->layers.size(), 48u);
  EXPECT_EQ(of_fla->vocab_size, 32000u);
}

// Whether the head of a file that stores one is tied. `tie`: of the config.
bool IsTiedWith(const nlohmann::json& tie, const nlohmann::json& version) {
  const auto model = LoadGoldenWith(
      "mamba-bias",
      {{"tie_word_embeddings", tie}, {"transformers_version", version}});
  EXPECT_TRUE(model.ok()) << model.status();
  return (*model)->description().tied_head;
}

TEST(MambaTest, WithoutAKeyTheHeadIsTiedAsByTheVersionWhichWroteTheFile) {
  EXPECT_TRUE(IsTiedWith(nullptr, "4.39.0"));
  EXPECT_TRUE(IsTiedWith(nullptr, "4.57.6"));
  EXPECT_FALSE(IsTiedWith(nullptr, "5.0.0"));
  EXPECT_FALSE(IsTiedWith(nullptr, "5.23.0"));
  EXPECT_FALSE(IsTiedWith(nullptr, nullptr));
}

TEST(MambaTest, AHeadThatDiffersFromTheTableIsTiedUpToVersion4) {
  EXPECT_TRUE(IsTiedWith(true, "4.57.6"));
  EXPECT_TRUE(IsTiedWith(true, nullptr));
  EXPECT_FALSE(IsTiedWith(true, "5.23.0"));
  EXPECT_FALSE(IsTiedWith(false, "4.57.6"));
}

TEST(MambaTest, FlaTiesOnlyWhatSaysSo) {
  const auto model =
      LoadGoldenWith("mamba-fla", {{"transformers_version", "4.57.6"}});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_FALSE((*model)->description().tied_head);
}

TEST(MambaTest, NoKeyThatLibrariesWriteIsUnknown) {
  const auto model =
      LoadGoldenWith("mamba", {{"d_inner", 64},
                               {"d_model", 32},
                               {"fused_add_norm", true},
                               {"id2label", {{"0", "A"}}},
                               {"intermediate_size", 64},
                               {"n_layer", 2},
                               {"rescale_prenorm_residual", true},
                               {"residual_in_fp32", true},
                               {"rms_norm", true},
                               {"ssm_cfg", {{"a", 1}}},
                               {"time_step_floor", 1e-4},
                               {"time_step_init_scheme", "random"},
                               {"time_step_max", 0.1},
                               {"time_step_min", 1e-3},
                               {"time_step_scale", 1.0},
                               {"use_associative_scan", true},
                               {"use_mambapy", false}});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->description().warnings, IsEmpty());
}

TEST(MambaTest, BadValuesAreRefusedByName) {
  const std::vector<std::pair<std::string, nlohmann::json>> bad = {
      {"state_size", 0},           {"expand", -1},
      {"conv_kernel", 0},          {"use_bias", 1},
      {"use_conv_bias", "x"},      {"hidden_act", "gelu"},
      {"time_step_rank", 0},       {"time_step_rank", "x"},
      {"attn", {{"layers", {0}}}}, {"layer_norm_epsilon", -1}};
  for (const auto& [key, value] : bad) {
    const auto model = LoadGoldenWith("mamba", {{key, value}});
    EXPECT_THAT(model.status().message(), HasSubstr(absl::StrCat(key, " is")));
  }
}

TEST(MambaTest, ARankThatTheTensorsDoNotHaveIsRefused) {
  const auto model = LoadGoldenWith("mamba", {{"time_step_rank", 9}});
  EXPECT_THAT(model.status().message(), HasSubstr("x_proj.weight"));
}

TEST(MambaTest, BadValuesOfFalconMambaAreRefusedByName) {
  const Refusal refusals[] = {
      {"intermediate_size", -1, absl::StatusCode::kInvalidArgument},
      {"mixer_rms_eps", -1, absl::StatusCode::kInvalidArgument},
      {"mixer_rms_eps", "small", absl::StatusCode::kInvalidArgument},
      {"state_size", 0, absl::StatusCode::kInvalidArgument},
      {"hidden_act", "relu", absl::StatusCode::kUnimplemented},
  };
  ExpectRefusals("falcon_mamba", refusals);
}

}  // namespace
}  // namespace steadystate::mamba_test
