// Goal: fields are found where they are, and nothing is read beyond the end.
// Method: bytes by hand, whole and cut short.
//
// Goal: what a message takes in memory is known before it is read. Method:
// messages that grow most, beside what protobuf says it uses for them.
#include "server/rpc/wire_reader.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>

#include "gtest/gtest.h"
#include "steadystate/v1/generation.pb.h"
#include "steadystate/v1/session.pb.h"

namespace steadystate::wire_reader_test {
namespace {

// 1: 300; 2: "hi"; 3: eight bytes; 4: four bytes; 5: a group with 1: 1 in a
// group.
const char kFields[] =
    "\x08\xac\x02"
    "\x12\x02hi"
    "\x19"
    "12345678"
    "\x25"
    "1234"
    "\x2b\x0b\x08\x01\x0c\x2c";

std::string Fields() { return {kFields, sizeof(kFields) - 1}; }

// How many fields can be passed over before a fault or the end; `good`: whether
// there was no fault.
int CountFields(const std::string& bytes, bool& good) {
  WireReader reader(bytes);
  int count = 0;
  good = true;
  while (!reader.done()) {
    WireTag tag;
    good = reader.ReadTag(tag) && reader.Skip(tag);
    if (!good) break;
    ++count;
  }
  return count;
}

TEST(WireReaderTest, ReadsEachType) {
  const std::string bytes = Fields();
  WireReader reader(bytes);
  WireTag tag;
  ASSERT_TRUE(reader.ReadTag(tag));
  EXPECT_EQ(tag.field, 1u);
  EXPECT_EQ(tag.type, WireType::kVarint);
  uint64_t number = 0;
  ASSERT_TRUE(reader.ReadVarint(number));
  EXPECT_EQ(number, 300u);
  ASSERT_TRUE(reader.ReadTag(tag));
  EXPECT_EQ(tag.type, WireType::kBytes);
  absl::string_view text;
  ASSERT_TRUE(reader.ReadBytes(text));
  EXPECT_EQ(text, "hi");
  bool good = false;
  EXPECT_EQ(CountFields(bytes, good), 5);
  EXPECT_TRUE(good);
}

TEST(WireReaderTest, FindsTheEndWhereverItComes) {
  const std::string bytes = Fields();
  // Where fields end, a message may.
  const size_t whole[] = {0, 3, 7, 16, 21, bytes.size()};
  for (size_t length = 0; length <= bytes.size(); ++length) {
    bool good = false;
    CountFields(bytes.substr(0, length), good);
    const bool expected = std::find(std::begin(whole), std::end(whole),
                                    length) != std::end(whole);
    EXPECT_EQ(good, expected) << length;
  }
}

// It drops the bits of a tag that do not fit, and takes no sixth byte.
TEST(WireReaderTest, ReadsTagsOfTooManyBitsAsProtobufDoes) {
  const std::string bytes = "\xb8\xbf\xff\xff\x1d\x01";
  WireReader reader(bytes);
  WireTag tag;
  ASSERT_TRUE(reader.ReadTag(tag));
  EXPECT_EQ(tag.field, 0xDFFFDFB8 >> 3);
  EXPECT_EQ(tag.type, WireType::kVarint);
  bool good = false;
  EXPECT_EQ(CountFields(bytes, good), 1);
  EXPECT_TRUE(good);
  CountFields("\xb8\xbf\xff\xff\x80\x01\x01", good);
  EXPECT_FALSE(good);
}

TEST(WireReaderTest, RefusesWhatProtobufRefuses) {
  const std::string faults[] = {std::string("\x00\x01", 2), "\x0c", "\x0f\x01",
                                std::string(10, '\xff') + "\x01",
                                std::string(200, '\x0b') + "\x0c"};
  for (const std::string& fault : faults) {
    bool good = true;
    CountFields(fault, good);
    EXPECT_FALSE(good) << testing::PrintToString(fault);
  }
}

std::string Times(size_t count, const std::string& text) {
  std::string times;
  for (size_t i = 0; i < count; ++i) times += text;
  return times;
}

// Not less than protobuf says, nor many times more.
template <typename Message>
void ExpectBounded(const std::string& bytes) {
  Message message;
  ASSERT_TRUE(message.ParseFromString(bytes));
  const size_t used = message.SpaceUsedLong();
  const size_t said = ParsedBytes(bytes, *Message::descriptor(), SIZE_MAX);
  EXPECT_GE(said, used) << testing::PrintToString(bytes.substr(0, 16));
  EXPECT_LE(said, 12 * used + 1024)
      << testing::PrintToString(bytes.substr(0, 16));
}

TEST(ParsedBytesTest, BoundsWhatProtobufUses) {
  constexpr size_t kCount = 4'000;
  ExpectBounded<v1::StreamStepRequest>("");
  ExpectBounded<v1::StreamStepRequest>(Times(kCount, {"\x1a\x00", 2}));
  ExpectBounded<v1::StreamStepRequest>(Times(kCount, {"\x1a\x02\x12\x00", 4}));
  ExpectBounded<v1::StreamStepRequest>(
      Times(kCount, {"\x1a\x06\x12\x04\x2a\x02\x0a\x00", 8}));
  // Stop strings and fields that nobody knows.
  ExpectBounded<v1::GenerateRequest>(Times(kCount, {"\x3a\x00", 2}));
  ExpectBounded<v1::GenerateRequest>(Times(kCount, {"\x7a\x00", 2}));
  ExpectBounded<v1::GenerateRequest>(Times(kCount, "\x78\x01"));
  ExpectBounded<v1::GenerateRequest>(Times(kCount, "\x7b\x7c"));
  // The first of their tags has more than 32 bits.
  ExpectBounded<v1::GenerateRequest>("\xb8\xbf\xff\xff\x1d\x01" +
                                     Times(kCount, "\x78\x01"));
  v1::GenerateRequest generate;
  for (int i = 0; i < int{kCount}; ++i) {
    (*generate.mutable_sampling()->mutable_logit_bias())[i] = 1;
    generate.add_stop_tokens(i % 100);
    generate.mutable_tokens()->add_ids(i);
  }
  ExpectBounded<v1::GenerateRequest>(generate.SerializeAsString());
  v1::StepRequest step;
  for (int i = 0; i < int{kCount}; ++i) {
    step.mutable_embeddings()->add_values(1);
  }
  ExpectBounded<v1::StepRequest>(step.SerializeAsString());
  v1::CreateSessionRequest create;
  for (int i = 0; i < int{kCount}; ++i) {
    (*create.mutable_session()->mutable_labels())[std::to_string(i)] = "x";
  }
  ExpectBounded<v1::CreateSessionRequest>(create.SerializeAsString());
}

TEST(ParsedBytesTest, StopsWhereItIsTooMuch) {
  const std::string bytes = Times(10'000, "\x78\x01");
  const size_t said = ParsedBytes(bytes, *v1::StepRequest::descriptor(), 5000);
  EXPECT_GT(said, 5000u);
  EXPECT_LT(said, 6000u);
}

TEST(ParsedBytesTest, CountsPartsAndNotNumbers) {
  const auto& type = *v1::GenerateRequest::descriptor();
  // Unknown numbers, texts, lists, groups, entries of a map; one too many each.
  for (const std::string& part :
       {std::string("\x78\x01"), std::string("\x3a\x00", 2),
        std::string("\x42\x00", 2), std::string("\x7b\x7c"),
        std::string("\x2a\x02\x52\x00", 4)}) {
    const size_t each = part.size() == 4 ? 2 : 1;
    EXPECT_EQ(ParsedBytes(Times(kMostParts / each + 1, part), type, SIZE_MAX),
              SIZE_MAX)
        << testing::PrintToString(part);
    EXPECT_LT(ParsedBytes(Times(kMostParts / each, part), type, SIZE_MAX),
              SIZE_MAX)
        << testing::PrintToString(part);
  }
  // Numbers of a list, each by itself.
  EXPECT_LT(ParsedBytes(Times(4 * kMostParts, "\x40\x01"), type, SIZE_MAX),
            SIZE_MAX);
}

TEST(ParsedBytesTest, StopsAtAFault) {
  const auto& type = *v1::StepRequest::descriptor();
  EXPECT_EQ(ParsedBytes("\xff", type, SIZE_MAX),
            ParsedBytes("", type, SIZE_MAX));
  // Groups that protobuf does not follow either.
  EXPECT_LT(ParsedBytes(Times(1'000'000, "\x7b"), type, SIZE_MAX), 100'000u);
}

}  // namespace
}  // namespace steadystate::wire_reader_test
