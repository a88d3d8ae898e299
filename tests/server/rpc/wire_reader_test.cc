// Goal: fields are found where they are, and nothing is read beyond the end.
// Method: bytes by hand, whole and cut short.
#include "server/rpc/wire_reader.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "gtest/gtest.h"

namespace steadystate {
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

}  // namespace
}  // namespace steadystate
