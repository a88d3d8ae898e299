#include "server/rpc/fair_share.h"

namespace steadystate {

uint64_t FairShare::Need(ClientId client, uint64_t amount) const {
  const uint64_t held = HeldBy(client);
  const uint64_t after = Beyond(held + amount);
  return parts_ * after + (after - Beyond(held));
}

bool FairShare::HasRoom(ClientId client, uint64_t amount) const {
  const uint64_t need = Need(client, amount);
  return need == 0 || (beyond_ < total_ && need <= total_ - beyond_);
}

void FairShare::Take(ClientId client, uint64_t amount) {
  if (amount == 0) return;
  uint64_t& held = clients_[client];
  beyond_ += Beyond(held + amount) - Beyond(held);
  held += amount;
  held_ += amount;
}

void FairShare::GiveBack(ClientId client, uint64_t amount) {
  if (amount == 0) return;
  const auto found = clients_.find(client);
  uint64_t& held = found->second;
  beyond_ -= Beyond(held) - Beyond(held - amount);
  held -= amount;
  held_ -= amount;
  if (held == 0) clients_.erase(found);
}

uint64_t FairShare::HeldBy(ClientId client) const {
  const auto found = clients_.find(client);
  return found == clients_.end() ? 0 : found->second;
}

}  // namespace steadystate
