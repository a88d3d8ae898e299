#ifndef STEADYSTATE_SERVER_RPC_FAIR_SHARE_H_
#define STEADYSTATE_SERVER_RPC_FAIR_SHARE_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "server/engine/request.h"

namespace steadystate {

// Divides an amount among clients so that none can have it all. A client may
// always hold its allowance, whatever others do. What it holds beyond that
// comes out of the amount for all, and must not exceed a part of what is then
// left of it: of 17 MiB and a 16th part, one client has 1 MiB at most, and
// after ten such clients the next one still has half of that.
// Thread-compatible.
class FairShare {
 public:
  // The unit is that of whatever is divided: bytes, requests. `parts` is how
  // many times what a client holds must be left.
  FairShare(uint64_t total, uint64_t allowance, uint64_t parts)
      : total_(total), allowance_(allowance), parts_(parts) {}

  // What must be left of the amount for all so that there is room for the
  // client to hold `amount` more. 0: its allowance will do.
  uint64_t Need(ClientId client, uint64_t amount) const;

  // Whether there is room for the client to hold `amount` more.
  bool HasRoom(ClientId client, uint64_t amount) const;

  // The client holds `amount` more from now on, room or not.
  void Take(ClientId client, uint64_t amount);
  // The client holds `amount` less. REQUIRES: it holds that much.
  void GiveBack(ClientId client, uint64_t amount);

  // By all clients, allowances included.
  uint64_t held() const { return held_; }
  uint64_t HeldBy(ClientId client) const;

 private:
  uint64_t Beyond(uint64_t held) const {
    return held > allowance_ ? held - allowance_ : 0;
  }

  const uint64_t total_;
  const uint64_t allowance_;
  const uint64_t parts_;
  uint64_t held_ = 0;
  uint64_t beyond_ = 0;                              // of it, beyond allowances
  absl::flat_hash_map<ClientId, uint64_t> clients_;  // none holds 0
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_FAIR_SHARE_H_
