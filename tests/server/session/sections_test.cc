// Goal: sections come back as they were written, and whatever has happened to
// their bytes shows. Method: every bit and every length of a small file.
#include "server/session/sections.h"

#include <string>

#include "gtest/gtest.h"
#include "server/base/binary.h"
#include "server/base/crc32c.h"
#include "server/base/error.h"

namespace steadystate::sections_test {
namespace {

constexpr size_t kMost = 8;

std::string SmallFile() {
  std::string bytes;
  WritePreamble(bytes);
  {
    const SectionWriter section(3, bytes);
    BinaryWriter(bytes).Text("first");
  }
  { const SectionWriter section(9, bytes); }
  return bytes;
}

ErrorReason ReasonOf(const absl::Status& status) {
  const auto details = GetErrorDetails(status);
  return details.has_value() ? details->reason : ErrorReason::kInternal;
}

void ExpectCorrupt(const std::string& bytes, size_t where) {
  const auto sections = ReadSections(bytes, kMost);
  ASSERT_FALSE(sections.ok()) << where;
  ASSERT_EQ(ReasonOf(sections.status()), ErrorReason::kSnapshotCorrupt)
      << where << ": " << sections.status();
}

TEST(SectionsTest, ComeBackAsTheyWereWritten) {
  const std::string bytes = SmallFile();
  const auto sections = ReadSections(bytes, kMost);
  ASSERT_TRUE(sections.ok()) << sections.status();
  ASSERT_EQ(sections->size(), 2u);
  EXPECT_EQ((*sections)[0].kind, 3u);
  EXPECT_EQ(BinaryReader((*sections)[0].payload).Text(), "first");
  EXPECT_EQ((*sections)[1].kind, 9u);
  EXPECT_EQ((*sections)[1].payload, "");
}

TEST(SectionsTest, EveryFlippedBitShows) {
  const std::string whole = SmallFile();
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    ExpectCorrupt(bytes, bit);
  }
}

TEST(SectionsTest, WhatIsCutWithinASectionShows) {
  const std::string whole = SmallFile();
  std::string preamble;
  WritePreamble(preamble);
  // The sections' ends: 4 + 8 + payload + 4 bytes each.
  const size_t first_end = preamble.size() + 16 + 4 + 5;
  for (size_t size = 0; size < whole.size(); ++size) {
    if (size == preamble.size() || size == first_end) continue;
    ExpectCorrupt(whole.substr(0, size), size);
  }
}

TEST(SectionsTest, MoreThanThereMayBeAreNotRead) {
  std::string bytes = SmallFile();
  for (size_t i = 2; i < kMost; ++i) const SectionWriter section(9, bytes);
  EXPECT_TRUE(ReadSections(bytes, kMost).ok());
  { const SectionWriter section(9, bytes); }
  ExpectCorrupt(bytes, bytes.size());
}

TEST(SectionsTest, ALaterVersionIsNotTakenForDamage) {
  std::string bytes;
  BinaryWriter writer(bytes);
  writer.Bytes("STDYSNAP", 8);
  writer.Number(uint32_t{2});
  writer.Number(Crc32cOf(bytes));
  const auto sections = ReadSections(bytes, kMost);
  EXPECT_EQ(ReasonOf(sections.status()),
            ErrorReason::kSnapshotVersionUnsupported);
}

}  // namespace
}  // namespace steadystate::sections_test
