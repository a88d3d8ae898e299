// Goal: what a message takes in memory is known before it is read. Method:
// messages that grow most, beside what protobuf says it uses for them.
#include "server/rpc/parsed_bytes.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "steadystate/v1/generation.pb.h"
#include "steadystate/v1/session.pb.h"

namespace steadystate {
namespace {

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
}  // namespace steadystate
