#ifndef STEADYSTATE_SERVER_SESSION_CHARGES_H_
#define STEADYSTATE_SERVER_SESSION_CHARGES_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "server/session/session_info.h"

namespace steadystate {

// What sessions are charged, in bytes. Thread-compatible.
class Charges {
 public:
  // The most of each.
  Charges(uint64_t memory, uint64_t store) : most_{memory, store} {}

  uint64_t most(Tier tier) const { return most_[Index(tier)]; }
  uint64_t used(Tier tier) const { return used_[Index(tier)]; }
  // None where more was taken up than there may be.
  uint64_t left(Tier tier) const {
    return most_[Index(tier)] - std::min(used(tier), most_[Index(tier)]);
  }
  void Take(Tier tier, uint64_t bytes) { used_[Index(tier)] += bytes; }
  void GiveBack(Tier tier, uint64_t bytes) { used_[Index(tier)] -= bytes; }

 private:
  static size_t Index(Tier tier) { return static_cast<size_t>(tier); }

  std::array<uint64_t, 2> most_;
  std::array<uint64_t, 2> used_{};
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_CHARGES_H_
