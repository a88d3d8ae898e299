#ifndef STEADYSTATE_SERVER_MODEL_PHILOX_H_
#define STEADYSTATE_SERVER_MODEL_PHILOX_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace steadystate {

// The counter-based random generator Philox 4x32-10 (Salmon et al., "Parallel
// random numbers: as easy as 1, 2, 3", SC 2011): 128 random bits that are a
// function of counter and key.
constexpr std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PHILOX_H_
