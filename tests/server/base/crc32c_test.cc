// Goal: CRC32C as published, however the bytes were cut. Method: the examples
// of RFC 3720, and pieces of every size.
#include "server/base/crc32c.h"

#include <numeric>
#include <string>

#include "gtest/gtest.h"

namespace steadystate::crc32c_test {
namespace {

TEST(Crc32cTest, AgreesWithThePublishedExamples) {
  EXPECT_EQ(Crc32cOf(""), 0u);
  EXPECT_EQ(Crc32cOf(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32cOf(std::string(32, '\xff')), 0x62a8ab43u);
  std::string ascending(32, '\0');
  std::iota(ascending.begin(), ascending.end(), '\0');
  EXPECT_EQ(Crc32cOf(ascending), 0x46dd794eu);
  EXPECT_EQ(Crc32cOf("123456789"), 0xe3069283u);
}

TEST(Crc32cTest, CutsDoNotMatter) {
  std::string text;
  for (int i = 0; i < 300; ++i) text.push_back(static_cast<char>(i * 7));
  for (const size_t piece : {1u, 7u, 63u, 64u, 65u, 200u}) {
    Crc32c crc;
    for (size_t i = 0; i < text.size(); i += piece) {
      crc.Update(absl::string_view(text).substr(i, piece));
    }
    EXPECT_EQ(crc.value(), Crc32cOf(text)) << piece;
  }
}

}  // namespace
}  // namespace steadystate::crc32c_test
