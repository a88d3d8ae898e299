#include "server/base/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"

namespace steadystate {
namespace {

constexpr uint32_t kRoundConstants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t ReadBigEndian(const std::byte* bytes) {
  return std::to_integer<uint32_t>(bytes[0]) << 24 |
         std::to_integer<uint32_t>(bytes[1]) << 16 |
         std::to_integer<uint32_t>(bytes[2]) << 8 |
         std::to_integer<uint32_t>(bytes[3]);
}

// One round; names of the variables as in FIPS 180-4, which then calls them by
// the next letter: the caller shifts the arguments instead.
inline void Round(uint32_t a, uint32_t b, uint32_t c, uint32_t& d, uint32_t e,
                  uint32_t f, uint32_t g, uint32_t& h,
                  uint32_t constant_plus_w) {
  using std::rotr;
  const uint32_t sum1 = rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25);
  const uint32_t choice = g ^ (e & (f ^ g));
  const uint32_t sum0 = rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22);
  const uint32_t majority = (a & b) | (c & (a | b));
  const uint32_t t1 = h + sum1 + choice + constant_plus_w;
  d += t1;
  h = t1 + sum0 + majority;
}

// One block of 64 bytes.
void MixBlock(const std::byte* block, std::array<uint32_t, 8>& state) {
  using std::rotr;
  uint32_t w[64];
  for (size_t t = 0; t < 16; ++t) w[t] = ReadBigEndian(block + 4 * t);
  for (size_t t = 16; t < 64; ++t) {
    const uint32_t s0 =
        rotr(w[t - 15], 7) ^ rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
    const uint32_t s1 =
        rotr(w[t - 2], 17) ^ rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (size_t t = 0; t < 64; t += 8) {
    const uint32_t* k = kRoundConstants + t;
    Round(a, b, c, d, e, f, g, h, k[0] + w[t]);
    Round(h, a, b, c, d, e, f, g, k[1] + w[t + 1]);
    Round(g, h, a, b, c, d, e, f, k[2] + w[t + 2]);
    Round(f, g, h, a, b, c, d, e, k[3] + w[t + 3]);
    Round(e, f, g, h, a, b, c, d, k[4] + w[t + 4]);
    Round(d, e, f, g, h, a, b, c, k[5] + w[t + 5]);
    Round(c, d, e, f, g, h, a, b, k[6] + w[t + 6]);
    Round(b, c, d, e, f, g, h, a, k[7] + w[t + 7]);
  }
  const uint32_t mixed[8] = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state[i] += mixed[i];
}

}  // namespace

void Sha256::Update(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const size_t filled = total_bytes_ % kBlockBytes;
  total_bytes_ += bytes.size();
  if (filled > 0) {
    const size_t taken = std::min(kBlockBytes - filled, bytes.size());
    std::memcpy(block_.data() + filled, bytes.data(), taken);
    bytes = bytes.subspan(taken);
    if (filled + taken < kBlockBytes) return;
    MixBlock(block_.data(), state_);
  }
  while (bytes.size() >= kBlockBytes) {
    MixBlock(bytes.data(), state_);
    bytes = bytes.subspan(kBlockBytes);
  }
  std::copy(bytes.begin(), bytes.end(), block_.begin());
}

std::string Sha256::FinishHex() {
  const uint64_t total_bits = total_bytes_ * 8;
  std::byte padding[kBlockBytes + 8] = {std::byte{0x80}};
  const size_t zeros_to =
      (kBlockBytes + 55 - total_bytes_ % kBlockBytes) % kBlockBytes + 1;
  for (size_t i = 0; i < 8; ++i) {
    padding[zeros_to + i] = static_cast<std::byte>(total_bits >> (56 - 8 * i));
  }
  Update({padding, zeros_to + 8});
  std::string digest;
  for (const uint32_t word : state_) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      digest.push_back(static_cast<char>(word >> shift));
    }
  }
  return absl::BytesToHexString(digest);
}

}  // namespace steadystate
