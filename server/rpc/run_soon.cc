#include "server/rpc/run_soon.h"

#include <memory>
#include <utility>

#include "grpc/support/time.h"
#include "grpcpp/alarm.h"

namespace steadystate {

void RunSoon(std::function<void()> work) {
  // It has to live until it has gone off, and is let go of then.
  const auto alarm =
      std::make_shared<std::unique_ptr<grpc::Alarm>>(new grpc::Alarm);
  (*alarm)->Set(gpr_now(GPR_CLOCK_MONOTONIC),
                [alarm, work = std::move(work)](bool) {
                  const std::unique_ptr<grpc::Alarm> own = std::move(*alarm);
                  work();
                });
}

}  // namespace steadystate
