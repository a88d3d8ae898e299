// Goal: what people have on their disks is taken, or they are told what to do.
// Method: directories as `hf download`, its cache, git and torch leave them.
#include "server/checkpoint/find_checkpoint.h"

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/checkpoint/checkpoint.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::find_checkpoint_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kPointer[] =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid "
    "sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393"
    "\nsize 12345\n";

std::string Message(const std::string& given) {
  return std::string(FindCheckpoint(given).status().message());
}

// A model's folder in the hub's cache, with these revisions.
class HubCache {
 public:
  explicit HubCache(std::initializer_list<const char*> revisions) {
    namespace fs = std::filesystem;
    fs::create_directories(folder() + "/refs");
    fs::create_directories(folder() + "/snapshots");
    for (const char* revision : revisions) {
      fs::create_directories(absl::StrCat(folder(), "/snapshots/", revision));
      Write(absl::StrCat("snapshots/", revision, "/config.json"), "{}");
    }
  }

  std::string folder() const {
    return directory_.path() + "/models--org--some-model";
  }
  void Write(const std::string& name, const std::string& text) {
    directory_.Write("models--org--some-model/" + name, text);
  }

 private:
  const TempDirectory directory_;
};

TEST(FindCheckpointTest, ADirectoryIsCalledByItsName) {
  const TempDirectory directory;
  std::filesystem::create_directories(directory.path() + "/demo");
  directory.Write("demo/config.json", "{}");
  for (const char* slashes : {"", "/", "//", "/.", "/../demo"}) {
    const auto found = FindCheckpoint(directory.path() + "/demo" + slashes);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->name, "demo") << slashes;
  }
}

TEST(FindCheckpointTest, ARevisionInTheHubsCacheIsFound) {
  HubCache one({"0123"});
  auto found = FindCheckpoint(one.folder() + "/");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->directory, one.folder() + "//snapshots/0123");
  EXPECT_EQ(found->name, "some-model");
  found = FindCheckpoint(one.folder() + "/snapshots/0123/");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->name, "some-model");
  HubCache two({"0123", "4567"});
  EXPECT_THAT(Message(two.folder()),
              AllOf(HasSubstr("refs/main"), HasSubstr("0123, 4567")));
  two.Write("refs/main", "4567\n");
  EXPECT_THAT(FindCheckpoint(two.folder())->directory, HasSubstr("4567"));
  two.Write("refs/main", "../../../elsewhere");
  EXPECT_FALSE(FindCheckpoint(two.folder()).ok());
  EXPECT_THAT(Message(HubCache({}).folder()), HasSubstr("hf download"));
}

TEST(FindCheckpointTest, ANameOfAModelIsNotFetched) {
  EXPECT_THAT(Message("https://huggingface.co/org/name/"),
              HasSubstr("`hf download org/name --local-dir name`"));
  EXPECT_THAT(
      Message("state-spaces/mamba2-130m"),
      HasSubstr(
          "`hf download state-spaces/mamba2-130m --local-dir mamba2-130m`"));
  for (const char* path : {"/state-spaces/mamba2", "mamba2", "./mamba/2",
                           "a/b/c", "models/", "a b/c"}) {
    EXPECT_EQ(Message(path),
              absl::StrCat("no checkpoint directory '", path, "'"));
  }
}

TEST(FindCheckpointTest, WhatIsNoneIsSaidToBe) {
  const TempDirectory directory;
  directory.Write("file", "");
  EXPECT_THAT(Message(directory.path() + "/file"),
              HasSubstr("is not a directory"));
  EXPECT_THAT(Message(directory.path()), HasSubstr("no config.json"));
}

TEST(FindCheckpointTest, OtherWeightsAreNamedWithWhatToDo) {
  const TempDirectory directory;
  directory.Write("config.json", "{}");
  const auto message = [&directory] {
    return std::string(Checkpoint::Open(directory.path()).status().message());
  };
  EXPECT_THAT(message(), HasSubstr("hf download"));
  directory.Write("model.gguf", "");
  EXPECT_THAT(message(), HasSubstr("model.gguf, a format that is not read"));
  directory.Write("pytorch_model.bin", "");
  EXPECT_THAT(message(),
              AllOf(HasSubstr("pytorch_model.bin"),
                    HasSubstr("deploy/models/convert.py " + directory.path() +
                              " DESTINATION` for Mamba,")));
}

// Authors' files have no config.json; convert.py takes RWKV's by itself.
TEST(FindCheckpointTest, WeightsAloneAreNamedWithWhatToDo) {
  const TempDirectory directory;
  const std::string gguf = directory.Write("model.gguf", "");
  EXPECT_THAT(Message(directory.path()),
              AllOf(HasSubstr("no config.json. It has model.gguf, a format"),
                    HasSubstr("safetensors")));
  EXPECT_THAT(Message(gguf), HasSubstr("but a file of weights, a format that"));
  const std::string pth = directory.Write("RWKV-x070.pth", "");
  for (const std::string& given : {directory.path(), pth}) {
    EXPECT_THAT(Message(given), AllOf(HasSubstr("which is pickled"),
                                      HasSubstr("convert.py " + pth +
                                                " DESTINATION` for RWKV")));
  }
}

TEST(FindCheckpointTest, AShardThatIsMissingIsNamedWithWhatToDo) {
  const TempDirectory directory;
  directory.Write("config.json", "{}");
  directory.Write(
      "model.safetensors.index.json",
      R"({"weight_map": {"a": "model-00001-of-00002.safetensors"}})");
  EXPECT_THAT(Checkpoint::Open(directory.path()).status().message(),
              AllOf(HasSubstr("/model-00001-of-00002.safetensors, which "),
                    HasSubstr("`hf download`")));
}

TEST(FindCheckpointTest, TheConfigIsLookedAtBeforeTheWeights) {
  const TempDirectory directory;
  directory.Write("config.json", "{}");
  const auto refuse = [](absl::string_view text, absl::string_view path) {
    return absl::UnimplementedError(absl::StrCat(path, " is ", text));
  };
  EXPECT_THAT(Checkpoint::Open(directory.path(), refuse).status().message(),
              HasSubstr("/config.json is {}"));
}

TEST(FindCheckpointTest, WhatGitLfsLeavesIsNotTheFile) {
  const TempDirectory directory;
  directory.Write("config.json", "{}");
  directory.Write("model.safetensors", kPointer);
  EXPECT_THAT(Checkpoint::Open(directory.path()).status().message(),
              AllOf(HasSubstr("model.safetensors"), HasSubstr("git lfs pull")));
  directory.Write("config.json", kPointer);
  EXPECT_THAT(Checkpoint::Open(directory.path()).status().message(),
              AllOf(HasSubstr("config.json"), HasSubstr("git lfs pull")));
}

}  // namespace
}  // namespace steadystate::find_checkpoint_test
