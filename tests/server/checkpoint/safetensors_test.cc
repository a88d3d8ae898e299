// Goal: no .safetensors file, however wrong, is read beyond its bounds or
// misread. Method: one row per rule, each breaking one thing in a good file.
#include "server/checkpoint/safetensors.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/checkpoint_writer.h"
#include "tests/testing/temp_directory.h"

namespace steadystate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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
}  // namespace steadystate
