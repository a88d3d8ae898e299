// Goal: SHA-256 as published. Method: the examples of FIPS 180-4 and NIST's
// long message; pieces of every size.
#include "server/base/sha256.h"

#include <string>

#include "gtest/gtest.h"

namespace steadystate::sha256_test {
namespace {

std::string Hash(const std::string& text) {
  Sha256 hash;
  hash.Update(std::as_bytes(std::span(text)));
  return hash.FinishHex().value();
}

TEST(Sha256Test, AgreesWithThePublishedDigests) {
  EXPECT_EQ(Hash(""),
            "e3b0c44298fc1c149afbf4c8996fb924"
            "27ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Hash("abc"),
            "ba7816bf8f01cfea414140de5dae2223"
            "b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039"
            "a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Hash(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67"
            "f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, CutsDoNotMatter) {
  std::string text;
  for (int i = 0; i < 300; ++i) text.push_back(static_cast<char>(i * 7));
  for (size_t length = 0; length <= text.size(); ++length) {
    const std::string message = text.substr(0, length);
    const std::string expected = Hash(message);
    for (const size_t piece : {1u, 7u, 63u, 64u, 65u, 200u}) {
      Sha256 hash;
      for (size_t at = 0; at < length; at += piece) {
        const std::string part = message.substr(at, piece);
        hash.Update(std::as_bytes(std::span(part)));
      }
      EXPECT_EQ(hash.FinishHex().value(), expected);
    }
  }
}

}  // namespace
}  // namespace steadystate::sha256_test
