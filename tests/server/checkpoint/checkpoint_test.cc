// Goal: the files of a directory are found, shards through their index only,
// and their hash depends on content alone.
#include "server/checkpoint/checkpoint.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/checkpoint_writer.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::checkpoint_test {
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

TEST(CheckpointTest, AnIndexThatWasNotFetchedIsSaid) {
  const TempDirectory directory;
  WriteShards(directory, "{}");
  directory.Write(kIndexName,
                  "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  const absl::Status status = Checkpoint::Open(directory.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr(kIndexName), HasSubstr("`git lfs pull`")));
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

// Goal: no .safetensors file, however wrong, is read beyond its bounds or
// misread. Method: one row per rule, each breaking one thing in a good file.

using testing::ElementsAre;

absl::StatusOr<SafetensorsFile> OpenBytes(const TempDirectory& directory,
                                          const std::string& bytes) {
  return SafetensorsFile::Open(directory.Write("w.safetensors", bytes));
}

std::string Entry(const std::string& name, const std::string& dtype,
                  const std::string& shape, const std::string& offsets) {
  return absl::StrCat("\"", name, "\":{\"dtype\":\"", dtype,
                      "\",\"shape\":", shape, ",\"data_offsets\":", offsets,
                      "}");
}

// Eight bytes of data: a [2] and b [].
const std::string kGoodA = Entry("a", "BF16", "[2]", "[0,4]");
const std::string kGoodB = Entry("b", "F32", "[]", "[4,8]");
const std::string kMetadata = "\"__metadata__\":{\"format\":\"pt\"}";
const std::string kData = "12345678";

std::string Header(const std::vector<std::string>& entries) {
  return absl::StrCat("{", absl::StrJoin(entries, ","), "}");
}

TEST(SafetensorsTest, TensorsAreFound) {
  const TempDirectory directory;
  const auto file = OpenBytes(
      directory,
      SafetensorsBytes(absl::StrCat(Header({kMetadata, kGoodB, kGoodA}), "   "),
                       kData));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->tensors().size(), 2u);
  const StoredTensor& a = file->tensors().at("a");
  EXPECT_EQ(a.dtype, "BF16");
  EXPECT_THAT(a.shape, ElementsAre(2));
  EXPECT_EQ(a.bytes, 4u);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(a.data), 4), "1234");
  EXPECT_TRUE(file->tensors().at("b").shape.empty());
}

TEST(SafetensorsTest, EmptyTensorsAndFilesAreFine) {
  const TempDirectory directory;
  EXPECT_TRUE(OpenBytes(directory, SafetensorsBytes("{}", "")).ok());
  EXPECT_TRUE(
      OpenBytes(directory,
                SafetensorsBytes(Header({Entry("e", "F32", "[0,5]", "[0,0]"),
                                         kGoodA, kGoodB}),
                                 kData))
          .ok());
}

struct Broken {
  const char* name;
  std::string bytes;
  std::string message;  // a part of it
};

std::string WithA(const std::string& a) {
  return SafetensorsBytes(Header({a, kGoodB}), kData);
}

std::string LengthOnly(uint64_t length) {
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8) {
    bytes.push_back(static_cast<char>(length >> shift));
  }
  return bytes;
}

std::vector<Broken> BrokenFiles() {
  const std::string good = SafetensorsBytes(Header({kGoodA, kGoodB}), kData);
  return {
      {"Empty", "", "too few"},
      {"NoHeader", "1234567", "too few"},
      {"HeaderTooLong", LengthOnly(uint64_t{1} << 25) + "{}", "at most"},
      {"HeaderLengthOverflows", LengthOnly(UINT64_MAX) + "{}", "at most"},
      {"HeaderBeyondTheFile", LengthOnly(100) + "{}", "truncated"},
      {"NoBrace", SafetensorsBytes("[]", ""), "does not begin with '{'"},
      {"EmptyHeader", SafetensorsBytes("", ""), "does not begin with '{'"},
      {"NotJson", SafetensorsBytes("{\"a\":", ""), "not JSON"},
      {"DuplicateKey", SafetensorsBytes(Header({kGoodA, kGoodA}), kData),
       "occurs twice"},
      {"DeepJson", SafetensorsBytes("{\"a\":[[[[[[[[[[1]]]]]]]]]]}", kData),
       "deeper"},
      {"NotAnObject", WithA("\"a\":[1]"), "tensor 'a': its header"},
      {"UnknownDtype", WithA(Entry("a", "F12", "[2]", "[0,4]")), "'F12'"},
      {"NoDtype", WithA("\"a\":{\"shape\":[2],\"data_offsets\":[0,4]}"),
       "tensor 'a': it has no dtype"},
      {"NoShape", WithA("\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}"),
       "tensor 'a': it has no shape"},
      {"NoOffsets", WithA("\"a\":{\"dtype\":\"BF16\",\"shape\":[2]}"),
       "tensor 'a': it has no pair"},
      {"NegativeDimension", WithA(Entry("a", "BF16", "[-2]", "[0,4]")),
       "tensor 'a': a dimension"},
      {"FractionalDimension", WithA(Entry("a", "BF16", "[2.5]", "[0,4]")),
       "tensor 'a': a dimension"},
      {"ShapeOverflows",
       WithA(Entry("a", "BF16", "[9223372036854775807,9]", "[0,4]")),
       "tensor 'a': the product of its shape overflows"},
      {"ShapeNeedsMore", WithA(Entry("a", "BF16", "[3]", "[0,4]")),
       "tensor 'a': its data offsets span 4 bytes, its shape and dtype need 6"},
      {"OffsetsReversed", WithA(Entry("a", "BF16", "[2]", "[4,0]")),
       "tensor 'a': its data_offsets are not a range"},
      {"OffsetsNegative", WithA(Entry("a", "BF16", "[2]", "[-4,0]")),
       "tensor 'a': its data_offsets are not a range"},
      {"OffsetsBeyondTheFile", WithA(Entry("a", "BF16", "[2]", "[8,12]")),
       "tensor 'a': its data ends at byte 12"},
      {"Truncated", good.substr(0, good.size() - 1),
       "tensor 'b': its data ends at byte 8"},
      {"Overlap", WithA(Entry("a", "BF16", "[3]", "[0,6]")),
       "tensor 'b': its data begins at byte 4 and overlaps"},
      {"Hole", SafetensorsBytes(Header({kGoodB}), kData),
       "tensor 'b': bytes 0 to 4 before it belong to no tensor"},
      {"Rest", good + "9", "the tensors end at byte 8 of the data"},
  };
}

TEST(SafetensorsTest, EveryBrokenRuleHasItsMessage) {
  const TempDirectory directory;
  for (const Broken& broken : BrokenFiles()) {
    const auto file = OpenBytes(directory, broken.bytes);
    EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument)
        << broken.name;
    EXPECT_THAT(file.status().message(), HasSubstr("w.safetensors"));
    EXPECT_THAT(file.status().message(), HasSubstr(broken.message));
  }
}

TEST(SafetensorsTest, TooManyTensorsAreRefused) {
  std::string header = "{";
  for (int i = 0; i <= 100'000; ++i) {
    absl::StrAppend(&header, i > 0 ? "," : "", "\"", i, "\":0");
  }
  const TempDirectory directory;
  const auto file = OpenBytes(directory, SafetensorsBytes(header + "}", ""));
  EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(file.status().message(), HasSubstr("100001 tensors"));
}

TEST(SafetensorsTest, AMissingFileIsNotFound) {
  EXPECT_EQ(SafetensorsFile::Open("/nowhere/w.safetensors").status().code(),
            absl::StatusCode::kNotFound);
}

// Every byte of the header, set to every value that matters.
TEST(SafetensorsTest, NoSingleByteBreaksTheReader) {
  const TempDirectory directory;
  const std::string good = SafetensorsBytes(Header({kGoodA, kGoodB}), kData);
  for (size_t i = 0; i < good.size() - kData.size(); ++i) {
    for (const char c : {'\0', '\xFF', '{', '}', '"', '9', '-', '['}) {
      std::string bytes = good;
      bytes[i] = c;
      const auto file = OpenBytes(directory, bytes);
      if (!file.ok()) continue;
      for (const auto& [name, tensor] : file->tensors()) {
        EXPECT_LE(tensor.data + tensor.bytes,
                  file->bytes().data() + file->bytes().size());
      }
    }
  }
}

}  // namespace
}  // namespace steadystate::checkpoint_test
