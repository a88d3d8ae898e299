#include "server/base/byte_size.h"

#include "gtest/gtest.h"

namespace steadystate::byte_size_test {
namespace {

TEST(ParseByteSizeTest, ReadsBinaryAndDecimalUnits) {
  EXPECT_EQ(ParseByteSize("0").value(), 0u);
  EXPECT_EQ(ParseByteSize("37B").value(), 37u);
  EXPECT_EQ(ParseByteSize("4GiB").value(), uint64_t{4} << 30);
  EXPECT_EQ(ParseByteSize("512MiB").value(), uint64_t{512} << 20);
  EXPECT_EQ(ParseByteSize("1kB").value(), 1000u);
  EXPECT_EQ(ParseByteSize("2TB").value(), 2'000'000'000'000u);
  EXPECT_EQ(ParseByteSize("1.5KiB").value(), 1536u);
  EXPECT_EQ(ParseByteSize("18446744073709551615").value(), UINT64_MAX);
}

TEST(ParseByteSizeTest, UnderstandsOtherSpellings) {
  EXPECT_EQ(ParseByteSize("4Gi").value(), uint64_t{4} << 30);
  EXPECT_EQ(ParseByteSize("4gib").value(), uint64_t{4} << 30);
  EXPECT_EQ(ParseByteSize("4gb").value(), 4'000'000'000u);
}

// Docker takes 4G for 4GiB, Kubernetes for 4GB.
TEST(ParseByteSizeTest, AsksWhichUnitOneLetterIs) {
  EXPECT_EQ(ParseByteSize("4G").status().message(),
            "'4G' may be 4GiB or 4GB: say which of them");
  EXPECT_EQ(ParseByteSize("1.5k").status().message(),
            "'1.5k' may be 1.5KiB or 1.5kB: say which of them");
}

TEST(ParseByteSizeTest, RefusesEverythingElse) {
  for (const char* text :
       {"", "GiB", "-1", "+1", "1e3", "0x10", " 1", "1 GiB", "G", "1GiBs",
        "nan", "inf", "1.2.3", "18446744073709551616", "16777216TiB",
        "99999999999TB"}) {
    const auto size = ParseByteSize(text);
    ASSERT_FALSE(size.ok()) << text;
    EXPECT_EQ(size.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(size.status().message().find(text), absl::string_view::npos);
  }
}

TEST(UnparseByteSizeTest, IsReadAsTheSameNumber) {
  EXPECT_EQ(UnparseByteSize(uint64_t{4} << 30), "4GiB");
  EXPECT_EQ(UnparseByteSize(uint64_t{3} << 29), "1536MiB");
  EXPECT_EQ(UnparseByteSize(1'000'000), "1000000");
  EXPECT_EQ(UnparseByteSize(0), "0");
}

TEST(FormatByteSizeTest, UsesTheLargestUnitThatFits) {
  EXPECT_EQ(FormatByteSize(0), "0 B");
  EXPECT_EQ(FormatByteSize(1023), "1023 B");
  EXPECT_EQ(FormatByteSize(131072), "128.0 KiB");
  EXPECT_EQ(FormatByteSize(uint64_t{3} << 29), "1.5 GiB");
}

}  // namespace
}  // namespace steadystate::byte_size_test
