// Goal: what is no checkpoint, or not one that is supported, is refused with a
// typed error that names the file, key or tensor. Method: one row per defect,
// each put into a good checkpoint.
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/model.h"
#include "tests/testing/checkpoint_writer.h"
#include "tests/testing/golden_checkpoint.h"
#include "tests/testing/golden_options.h"
#include "tests/testing/temp_directory.h"
#include "tests/testing/tiny_model.h"

namespace steadystate::model_load_test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnimplemented = absl::StatusCode::kUnimplemented;

absl::StatusOr<std::shared_ptr<const Model>> Load(const std::string& path,
                                                  uint64_t context_cap = 0) {
  return Model::Load(
      {.path = path, .weight_dtype = DType::kF32, .context_cap = context_cap});
}

struct Defect {
  const char* name;
  std::function<void(CheckpointContents&)> spoil;
  absl::StatusCode code;
  std::string message;  // a part of it
};

void ExpectRefused(const TinyModelOptions& options,
                   const std::vector<Defect>& defects) {
  for (const Defect& defect : defects) {
    SCOPED_TRACE(defect.name);
    CheckpointContents contents = MakeTinyCheckpoint(options);
    defect.spoil(contents);
    const auto model = LoadContents(contents);
    EXPECT_EQ(model.status().code(), defect.code) << model.status();
    EXPECT_THAT(model.status().message(), HasSubstr(defect.message));
  }
}

// Sets a key of config.json.
Defect Key(const char* key, const nlohmann::json& value, absl::StatusCode code,
           std::string message) {
  return {key, [key, value](CheckpointContents& c) { c.config[key] = value; },
          code, std::move(message)};
}

TEST(ModelLoadTest, KeysOutOfRangeAreInvalid) {
  ExpectRefused(
      {},
      {
          Key("hidden_size", 0, kInvalid, "hidden_size is 0"),
          Key("hidden_size", -32, kInvalid, "hidden_size is -32"),
          Key("hidden_size", 1e15, kInvalid, "hidden_size is"),
          Key("hidden_size", "32", kInvalid, "hidden_size is \"32\""),
          Key("num_hidden_layers", 0, kInvalid, "num_hidden_layers"),
          Key("num_hidden_layers", 1u << 31, kInvalid, "num_hidden_layers"),
          Key("vocab_size", 0, kInvalid, "vocab_size"),
          Key("vocab_size", 255, kInvalid, "vocab_size"),
          Key("vocab_size", 9e18, kInvalid, "vocab_size"),
          Key("num_heads", 3, kInvalid, "num_heads, 3"),
          Key("num_heads", 0, kInvalid, "num_heads"),
          Key("num_kv_heads", 3, kInvalid, "num_kv_heads is 3"),
          Key("intermediate_size", 0, kInvalid, "intermediate_size"),
          Key("intermediate_size", 1e12, kInvalid, "intermediate_size"),
          Key("hidden_ratio", -1, kInvalid, "hidden_ratio"),
          Key("expand_k", 0, kInvalid, "expand_k"),
          Key("expand_k", 1e6, kInvalid, "expand_k"),
          Key("expand_v", 1.05, kInvalid, "expand_v"),
          Key("norm_eps", -1, kInvalid, "norm_eps"),
          Key("norm_eps", "small", kInvalid, "norm_eps"),
          Key("clamp_min", 1, kInvalid, "clamp_min"),
          Key("tie_word_embeddings", 1, kInvalid, "tie_word_embeddings"),
          Key("eos_token_id", 4e9, kInvalid, "eos_token_id is 4000000000"),
          Key("eos_token_id", {1, -2}, kInvalid, "eos_token_id"),
          Key("bos_token_id", "x", kInvalid, "bos_token_id"),
          Key("attn", 7, kInvalid, "attn is 7"),
          Key("attn", {{"layers", {0}}}, kInvalid, "attn.num_heads"),
          Key("attn", {{"num_heads", 2}}, kInvalid, "attn.layers"),
          Key("attn", {{"layers", {2}}, {"num_heads", 2}}, kInvalid,
              "attn.layers"),
          Key("attn", {{"layers", {0, 0}}, {"num_heads", 2}}, kInvalid,
              "listed twice"),
          Key("attn", {{"layers", {0}}, {"num_heads", 5}}, kInvalid,
              "attn.num_heads is 5"),
          Key("attn", {{"layers", {0}}, {"num_heads", 2}, {"window_size", 0}},
              kInvalid, "attn.window_size is 0"),
          Key("model_type", nullptr, kInvalid, "model_type"),
      });
  ExpectRefused({.short_conv = true},
                {Key("conv_size", 0, kInvalid, "conv_size"),
                 Key("conv_size", 1e9, kInvalid, "conv_size")});
}

TEST(ModelLoadTest, WhatWouldChangeResultsIsUnimplemented) {
  ExpectRefused(
      {},
      {
          Key("attnres_block_size", 4, kUnimplemented,
              "attnres_block_size is 4"),
          Key("quantization_config", {{"quant_method", "fp8"}}, kUnimplemented,
              "quantization_config is {\"quant_method\":\"fp8\"}: weights that "
              "others have quantised are not read; fetch the checkpoint"),
          Key("gate_logit_normalizer", 8, kUnimplemented,
              "gate_logit_normalizer is 8"),
          Key("hidden_act", "relu", kUnimplemented, "hidden_act is \"relu\""),
          Key("hidden_act", "powlu", kUnimplemented, "hidden_act is \"powlu\""),
          Key("feature_map", "hedgehog", kUnimplemented, "feature_map"),
          Key("tokenizer", "sentencepiece", kUnimplemented, "tokenizer"),
          Key("model_type", "llama", kUnimplemented,
              "\"llama\": supported are: bailing_hybrid, "),
          Key("attn",
              {{"layers", {0}}, {"num_heads", 2}, {"rope_scaling", {{"t", 2}}}},
              kUnimplemented, "attn.rope_scaling"),
      });
}

constexpr char kGate[] = "model.layers.1.attn.g_proj.weight";

TEST(ModelLoadTest, TensorsThatDoNotFitAreNamed) {
  ExpectRefused(
      {},
      {
          {"Missing", [](CheckpointContents& c) { c.tensors.erase(kGate); },
           kInvalid, kGate},
          {"MissingNorm",
           [](CheckpointContents& c) {
             c.tensors.erase("model.layers.0.attn.g_norm_swish_gate.weight");
           },
           kInvalid, "model.layers.0.attn.g_norm.weight"},
          {"Misshaped",
           [](CheckpointContents& c) {
             c.tensors[kGate].shape = {64, 16};
           },
           kInvalid, "[64, 16], the config asks for [32, 32]"},
          {"WrongRank",
           [](CheckpointContents& c) { c.tensors[kGate].shape = {1024}; },
           kInvalid, kGate},
          {"OtherVocabulary",
           [](CheckpointContents& c) { c.config["vocab_size"] = 257; },
           kInvalid, "model.embeddings.weight"},
          {"MoreLayers",
           [](CheckpointContents& c) { c.config["num_hidden_layers"] = 3; },
           kInvalid, "model.layers.2.attn_norm.weight"},
          {"OtherMlp",
           [](CheckpointContents& c) { c.config["intermediate_size"] = 50; },
           kInvalid, "model.layers.0.mlp.gate_proj.weight"},
          {"NoBiases",
           [](CheckpointContents& c) {
             c.config["attn"] = {
                 {"layers", {1}}, {"num_heads", 2}, {"qkv_bias", true}};
             for (const char* part : {"q", "k"}) {
               c.tensors[std::string("model.layers.1.attn.") + part +
                         "_proj.weight"] =
                   c.tensors["model.layers.1.attn.v_proj.weight"];
             }
           },
           kInvalid, "model.layers.1.attn.q_proj.bias"},
      });
}

TEST(ModelLoadTest, FilesThatAreNoCheckpointAreRefused) {
  const TinyModel model;
  const std::string weights = model.path() + "/model.safetensors";
  const std::string config = model.path() + "/config.json";
  EXPECT_TRUE(Load(model.path()).ok());
  EXPECT_EQ(Load(config).status().code(), kInvalid);
  EXPECT_EQ(Load(model.path() + "/no").status().code(),
            absl::StatusCode::kNotFound);

  std::filesystem::resize_file(weights,
                               std::filesystem::file_size(weights) - 3);
  const absl::Status truncated = Load(model.path()).status();
  EXPECT_EQ(truncated.code(), kInvalid);
  EXPECT_THAT(truncated.message(),
              AllOf(HasSubstr("model.safetensors"), HasSubstr("truncated")));
  std::filesystem::remove(weights);
  EXPECT_EQ(Load(model.path()).status().code(), absl::StatusCode::kNotFound);
}

// Its weights would be fetched for nothing.
TEST(ModelLoadTest, WhatIsNotServedIsSaidBeforeWeightsAreLookedFor) {
  const TempDirectory directory;
  directory.Write("config.json", R"({"model_type": "bert"})");
  EXPECT_EQ(Load(directory.path()).status().code(), kUnimplemented);
  directory.Write("config.json", "<!DOCTYPE html>");
  EXPECT_THAT(Load(directory.path()).status().message(),
              HasSubstr("config.json: this is a web page"));
}

TEST(ModelLoadTest, ConfigsThatAreNoJsonAreRefused) {
  const TinyModel model;
  for (const std::string& text :
       {std::string("{"), std::string("[]"),
        "{\"a\":" + std::string(1000, '[') + std::string(1000, ']') + "}",
        std::string("{\"a\":1,\"a\":1}")}) {
    std::FILE* file = std::fopen((model.path() + "/config.json").c_str(), "wb");
    std::fwrite(text.data(), 1, text.size(), file);
    std::fclose(file);
    const absl::Status status = Load(model.path()).status();
    EXPECT_EQ(status.code(), kInvalid);
    EXPECT_THAT(status.message(), HasSubstr("config.json"));
  }
}

TEST(ModelLoadTest, WeightsAreBfloat16UnlessToldOtherwise) {
  const TinyModel model;
  const auto loaded = Model::Load({.path = model.path()});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)->description().linear.weight_dtype, "bf16");
}

TEST(ModelLoadTest, TheDescriptionTellsWhatWasLoaded) {
  TinyModelOptions options;
  options.eos_tokens = {3, 7};
  CheckpointContents contents = MakeTinyCheckpoint(options);
  contents.config["mystery"] = 1;
  contents.config["torch_dtype"] = "bfloat16";
  contents.config["attn"] = nullptr;
  contents.tensors["model.extra"] = {DType::kF32, {1}, {0}};
  contents.tensors["model.layers.0.attn.rotary.inv_freq"] = {
      DType::kF32, {1}, {0}};
  const auto model = LoadContents(contents);
  ASSERT_TRUE(model.ok()) << model.status();
  const ModelDescription& description = (*model)->description();
  EXPECT_EQ(description.family, "gla");
  EXPECT_EQ(description.vocab_size, 256u);
  EXPECT_EQ(description.hidden_size, 32u);
  EXPECT_EQ(description.layers, 2u);
  EXPECT_EQ(description.softmax_layers, 0u);
  EXPECT_THAT(description.bos_tokens, IsEmpty());
  EXPECT_THAT(description.eos_tokens, ElementsAre(3, 7));
  EXPECT_EQ(description.fingerprint.size(), 64u);
  EXPECT_EQ(description.linear.weight_dtype, "f32");
  EXPECT_FALSE(description.kernel_target.empty());
  EXPECT_THAT(description.warnings,
              ElementsAre("unknown config key 'mystery'",
                          "tensor 'model.extra' is not used"));
  size_t parameters = 0;
  for (const auto& [name, tensor] : contents.tensors) {
    parameters += tensor.values.size();
  }
  EXPECT_EQ(description.parameters, parameters - 2);
  ASSERT_NE((*model)->tokenizer(), nullptr);
  EXPECT_EQ((*model)->tokenizer()->kind(), "bytes");
}

// A head that is stored beside the table and differs is tied by transformers 4
// alone, one that is the same by 5, too.
TEST(ModelLoadTest, TheVersionToReadAsIsThatOfTheOptions) {
  CheckpointContents contents = MakeTinyCheckpoint({});
  contents.config["tie_word_embeddings"] = true;
  contents.config["transformers_version"] = "4.57.6";
  const TempDirectory directory;
  WriteCheckpoint(contents, directory.path());
  const auto is_tied = [&directory](const std::string& version) {
    const auto model = Model::Load(
        {.path = directory.path(), .transformers_version = version});
    EXPECT_TRUE(model.ok()) << model.status();
    return (*model)->description().tied_head;
  };
  EXPECT_TRUE(is_tied(""));
  EXPECT_TRUE(is_tied("4.30.0"));
  EXPECT_FALSE(is_tied("5.0.0"));
  contents.tensors["lm_head.weight"] =
      contents.tensors.at("model.embeddings.weight");
  WriteCheckpoint(contents, directory.path());
  EXPECT_TRUE(is_tied("5.0.0"));
}

// A file that was fetched in part would be another model, tied.
TEST(ModelLoadTest, AHeadThatTheConfigUntiesMustBeThere) {
  CheckpointContents contents = MakeTinyCheckpoint({});
  contents.tensors.erase("lm_head.weight");
  contents.config["tie_word_embeddings"] = false;
  const absl::Status refused = LoadContents(contents).status();
  EXPECT_EQ(refused.code(), kInvalid);
  EXPECT_THAT(refused.message(),
              AllOf(HasSubstr("config.json: tie_word_embeddings is false"),
                    HasSubstr("'lm_head.weight'"), HasSubstr("hf download")));
  // Not every library writes the key.
  for (const nlohmann::json& tied : {nlohmann::json(), nlohmann::json(true)}) {
    contents.config["tie_word_embeddings"] = tied;
    const auto model = LoadContents(contents);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_TRUE((*model)->description().tied_head);
  }
}

TEST(ModelLoadTest, TheVersionToReadAsIsInTheFingerprint) {
  const TinyModel tiny;
  const auto fingerprint = [&tiny](const std::string& version) {
    const auto model =
        Model::Load({.path = tiny.path(), .transformers_version = version});
    EXPECT_TRUE(model.ok()) << model.status();
    return (*model)->description().fingerprint;
  };
  EXPECT_EQ(fingerprint(""), (*Load(tiny.path()))->description().fingerprint);
  EXPECT_NE(fingerprint(""), fingerprint("4.57.6"));
  EXPECT_NE(fingerprint("5.23.0"), fingerprint("4.57.6"));
}

TEST(ModelLoadTest, TheIdDefaultsToTheDirectorysName) {
  const TinyModel tiny;
  const std::string name = std::filesystem::path(tiny.path()).filename();
  EXPECT_EQ((*Load(tiny.path()))->description().id, name);
  EXPECT_EQ((*Load(tiny.path() + "//"))->description().id, name);
}

TEST(ModelLoadTest, SpecialTokensDefaultToThoseOfTheLibrary) {
  CheckpointContents contents = MakeTinyCheckpoint({});
  contents.config.erase("bos_token_id");
  contents.config["eos_token_id"] = 5;
  contents.config.erase("tokenizer");
  const auto model = LoadContents(contents);
  ASSERT_TRUE(model.ok());
  EXPECT_THAT((*model)->description().bos_tokens, ElementsAre(1));
  EXPECT_THAT((*model)->description().eos_tokens, ElementsAre(5));
  EXPECT_EQ((*model)->tokenizer(), nullptr);
}

TEST(ModelLoadTest, ASpecialTokenOfMinusOneIsNone) {
  CheckpointContents contents = MakeTinyCheckpoint({});
  contents.config["bos_token_id"] = -1;
  contents.config["eos_token_id"] = -1;
  const auto model = LoadContents(contents);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->description().bos_tokens, IsEmpty());
  EXPECT_THAT((*model)->description().eos_tokens, IsEmpty());
  EXPECT_THAT((*model)->description().warnings,
              ElementsAre("bos_token_id -1 is taken as null",
                          "eos_token_id -1 is taken as null"));
}

TEST(ModelLoadTest, TheLibrarysSpecialTokensGiveWayToTheGenerationConfig) {
  CheckpointContents contents = MakeTinyCheckpoint({});
  contents.config.erase("bos_token_id");
  contents.config.erase("eos_token_id");
  const TempDirectory directory;
  WriteCheckpoint(contents, directory.path());
  std::ofstream(directory.path() + "/generation_config.json")
      << R"({"bos_token_id": 3, "eos_token_id": 7})";
  const auto model = Load(directory.path());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->description().bos_tokens, ElementsAre(3));
  EXPECT_THAT((*model)->description().eos_tokens, ElementsAre(7));
}

TEST(ModelLoadTest, OfTwoKeysOfEpsTheOneThatIsNotTakenIsNamed) {
  CheckpointContents contents = MakeTinyCheckpoint({});
  contents.config["norm_eps"] = 1e-5;
  contents.config["rms_norm_eps"] = 1e-5;
  EXPECT_THAT((*LoadContents(contents))->description().warnings, IsEmpty());
  contents.config["rms_norm_eps"] = 0.25;
  EXPECT_THAT(
      (*LoadContents(contents))->description().warnings,
      ElementsAre("norm_eps 1e-05 is taken, and rms_norm_eps 0.25 is not"));
  // The family's own, whatever else there is.
  const ModelConfig nemotron = ReadConfigText(
      R"({"model_type": "nemotron_h", "layers_block_type": ["mamba"],
          "norm_eps": 0.5, "rms_norm_eps": 0.25, "layer_norm_epsilon": 1e-5})");
  EXPECT_EQ(nemotron.norm.eps, 1e-5F);
  EXPECT_THAT(
      nemotron.warnings,
      ElementsAre("layer_norm_epsilon 1e-05 is taken, and norm_eps 0.5 is not",
                  "layer_norm_epsilon 1e-05 is taken, and rms_norm_eps 0.25 is "
                  "not"));
  EXPECT_EQ(ReadConfigText(R"({"model_type": "falcon_mamba",
          "rms_norm_eps": 0.25, "layer_norm_epsilon": 1e-6})")
                .norm.eps,
            1e-6F);
}

// As a small model has one from its library's defaults.
TEST(ModelLoadTest, ASpecialTokenBeyondTheVocabularyIsLeftOut) {
  CheckpointContents contents = MakeTinyCheckpoint({});
  contents.config["eos_token_id"] = {100257, 5};
  const auto model = LoadContents(contents);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->description().eos_tokens, ElementsAre(5));
  EXPECT_THAT((*model)->description().warnings,
              Contains(HasSubstr("eos_token_id 100257 is left out")));
}

TEST(ModelLoadTest, SoftmaxLayersHaveACap) {
  const TinyModel tiny({.softmax_layer = 1, .max_position_embeddings = 77});
  const auto by_config = Load(tiny.path());
  ASSERT_TRUE(by_config.ok()) << by_config.status();
  EXPECT_EQ((*by_config)->state_layout().context_cap(), 77u);
  EXPECT_EQ((*by_config)->description().softmax_layers, 1u);
  EXPECT_EQ((*Load(tiny.path(), 5))->state_layout().context_cap(), 5u);
  // What fits no machine's memory is not the default.
  const TinyModel longer(
      {.softmax_layer = 1, .max_position_embeddings = 1 << 18});
  EXPECT_EQ((*Load(longer.path()))->state_layout().context_cap(),
            kDefaultContextCap);
  EXPECT_EQ((*Load(longer.path(), 9000))->state_layout().context_cap(), 9000u);
  EXPECT_EQ(Load(tiny.path(), uint64_t{1} << 40).status().code(), kInvalid);
}

TEST(ModelLoadTest, WindowsAndPureRecurrencesHaveNoCap) {
  const TinyModel windowed({.softmax_layer = 0, .softmax_window = 4});
  EXPECT_EQ((*Load(windowed.path()))->state_layout().context_cap(), 0u);
  CheckpointContents contents = MakeTinyCheckpoint({});
  contents.config["max_position_embeddings"] = 1u << 30;
  EXPECT_EQ((*LoadContents(contents))->state_layout().context_cap(), 0u);
}

}  // namespace
}  // namespace steadystate::model_load_test
