#ifndef STEADYSTATE_CLIENT_LOAD_GENERATE_CARRIER_H_
#define STEADYSTATE_CLIENT_LOAD_GENERATE_CARRIER_H_

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "client/load/carrier.h"
#include "client/mutex.h"
#include "steadystate/v1/generation.grpc.pb.h"

namespace steadystate::client {

// A Generate call for each request.
class GenerateCarrier final : public Carrier {
 public:
  // `context` and `stub` outlive the object.
  GenerateCarrier(const LoadContext& context,
                  v1::GenerationService::Stub& stub);
  ~GenerateCarrier() override;

  void Begin(const Turn& turn) override;
  void Cancel() override;
  void Close() override {}
  void WaitUntilClosed() override;
  Tally tally() const override;
  Progress progress() const override;

 private:
  class Call;

  void Take(LoadSession& session, const v1::GenerateResponse& message,
            LoadTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  SessionFate End(LoadSession& session, const absl::Status& status,
                  LoadTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const LoadContext& context_;
  v1::GenerationService::Stub& stub_;

  mutable Mutex mutex_;
  CondVar quiet_;
  // By session: made on first use, and used again and again.
  std::vector<std::unique_ptr<Call>> calls_ ABSL_GUARDED_BY(mutex_);
  size_t running_ ABSL_GUARDED_BY(mutex_) = 0;  // calls
  Tally tally_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_GENERATE_CARRIER_H_
