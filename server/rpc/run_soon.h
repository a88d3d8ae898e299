#ifndef STEADYSTATE_SERVER_RPC_RUN_SOON_H_
#define STEADYSTATE_SERVER_RPC_RUN_SOON_H_

#include <functional>

namespace steadystate {

// Runs `work` on one of gRPC's threads, soon: for what a callback on another
// thread, the engine's for instance, may not do. `work` keeps alive what it
// uses. Thread-safe.
void RunSoon(std::function<void()> work);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_RUN_SOON_H_
