#ifndef STEADYSTATE_SERVER_METRICS_HEALTH_H_
#define STEADYSTATE_SERVER_METRICS_HEALTH_H_

#include <cstdint>

namespace steadystate {

// How the server is: what its health by gRPC is made of.
enum class ServerHealth : uint8_t {
  kLoading,   // it does not take requests yet
  kServing,   // health is SERVING; in all other cases it is not
  kDraining,  // it shuts down
  kStuck,     // its compute thread does not move
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_METRICS_HEALTH_H_
