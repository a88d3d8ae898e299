#ifndef STEADYSTATE_CLIENT_LOAD_GENERATE_CARRIER_H_
#define STEADYSTATE_CLIENT_LOAD_GENERATE_CARRIER_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "client/load/carrier.h"
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

  // The call of a session, made on first use and used again and again.
  Call& CallOf(const LoadSession& session);
  // These need mutex_.
  void Take(LoadSession& session, const v1::GenerateResponse& message,
            LoadTime now);
  SessionFate End(LoadSession& session, const absl::Status& status,
                  LoadTime now);

  const LoadContext& context_;
  v1::GenerationService::Stub& stub_;

  mutable std::mutex mutex_;
  std::condition_variable quiet_;
  // Guarded by mutex_.
  std::vector<std::unique_ptr<Call>> calls_;  // by session
  size_t running_ = 0;                        // calls
  Tally tally_;
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_GENERATE_CARRIER_H_
