// Goal: the files of a directory are found, shards through their index only,
// and their hash depends on content alone.
#include "server/checkpoint/checkpoint.h"

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/checkpoint_writer.h"
#include "tests/testing/temp_directory.h"

namespace steadystate {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Key;
using testing::UnorderedElementsAre;

std::string OneTensor(const std::string& name, float value) {
  return SafetensorsBytes({{name, {DType::kF32, {1}, {value}}}});
}

constexpr char kIndexName[] = "model.safetensors.index.json";

void WriteShards(const TempDirectory& directory, const std::string& map) {
  directory.Write("config.json", "{}");
  directory.Write("s1.safetensors", OneTensor("a", 1));
  directory.Write("s2.safetensors", OneTensor("b", 2));
  directory.Write(kIndexName, "{\"weight_map\":" + map + "}");
}

TEST(CheckpointTest, ASingleFileIsEnough) {
  const TempDirectory directory;
  directory.Write("config.json", "{ }");
  directory.Write("model.safetensors", OneTensor("a", 1));
  const auto checkpoint = Checkpoint::Open(directory.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->config_text(), "{ }");
  EXPECT_THAT(checkpoint->tensors(), UnorderedElementsAre(Key("a")));
}

TEST(CheckpointTest, ShardsAreFoundThroughTheIndex) {
  const TempDirectory directory;
  WriteShards(directory, R"({"a": "s1.safetensors", "b": "s2.safetensors"})");
  const auto checkpoint = Checkpoint::Open(directory.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_THAT(checkpoint->tensors(), UnorderedElementsAre(Key("a"), Key("b")));
}

TEST(CheckpointTest, AnIndexThatLiesIsRefused) {
  struct Row {
    const char* map;
    const char* message;
  };
  const Row rows[] = {
      {R"({"b": "s1.safetensors"})",
       "tensor 'b' is said to be in 's1.safetensors', which does not have it"},
      {R"({"a": "../s1.safetensors"})", "not the plain name"},
      {R"({"a": "/etc/x.safetensors"})", "not the plain name"},
      {R"({"a": "..safetensors"})", "not the plain name"},
      {R"({"a": "sub\\s1.safetensors"})", "not the plain name"},
      {R"({"a": "s1.safetensors\u0000.safetensors"})", "not the plain name"},
      {R"({"a": "config.json"})", "not the plain name"},
      {R"({"a": 5})", "not the plain name"},
      {R"([1])", "no object 'weight_map'"},
      {R"({"a": "s1.safetensors", "a": "s1.safetensors"})", "occurs twice"},
  };
  for (const Row& row : rows) {
    const TempDirectory directory;
    WriteShards(directory, row.map);
    const auto checkpoint = Checkpoint::Open(directory.path());
    EXPECT_EQ(checkpoint.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(checkpoint.status().message(),
                AllOf(HasSubstr(kIndexName), HasSubstr(row.message)));
  }
}

TEST(CheckpointTest, MissingFilesAreNotFound) {
  const TempDirectory directory;
  const auto code = [&directory] {
    return Checkpoint::Open(directory.path()).status().code();
  };
  EXPECT_EQ(code(), absl::StatusCode::kNotFound);  // no config.json
  WriteShards(directory, R"({"a": "s3.safetensors"})");
  EXPECT_EQ(code(), absl::StatusCode::kNotFound);  // no such shard
  std::filesystem::remove(directory.path() + "/" + kIndexName);
  EXPECT_EQ(code(), absl::StatusCode::kNotFound);  // no weights
  EXPECT_THAT(Checkpoint::Open(directory.path()).status().message(),
              HasSubstr("model.safetensors.index.json"));
  EXPECT_EQ(Checkpoint::Open(directory.path() + "/x").status().code(),
            absl::StatusCode::kNotFound);
}

TEST(CheckpointTest, AFileIsNoCheckpoint) {
  const TempDirectory directory;
  const std::string file = directory.Write("config.json", "{}");
  EXPECT_EQ(Checkpoint::Open(file).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CheckpointTest, TheFingerprintFollowsTheContentAlone) {
  const auto fingerprint = [](const std::string& config, float value) {
    const TempDirectory directory;
    directory.Write("config.json", config);
    directory.Write("model.safetensors", OneTensor("a", value));
    return Checkpoint::Open(directory.path())->Fingerprint().value();
  };
  const std::string base = fingerprint("{}", 1);
  EXPECT_EQ(base.size(), 64u);
  EXPECT_EQ(fingerprint("{}", 1), base);
  EXPECT_NE(fingerprint("{ }", 1), base);
  EXPECT_NE(fingerprint("{}", 1.5f), base);
}

TEST(CheckpointTest, TheIndexCountsTowardsTheFingerprint) {
  const auto fingerprint = [](const std::string& map) {
    const TempDirectory directory;
    WriteShards(directory, map);
    return Checkpoint::Open(directory.path())->Fingerprint().value();
  };
  EXPECT_NE(fingerprint(R"({"a": "s1.safetensors"})"),
            fingerprint(R"({"b": "s2.safetensors"})"));
}

}  // namespace
}  // namespace steadystate
