#ifndef STEADYSTATE_TESTS_SERVER_RPC_RAW_CALL_H_
#define STEADYSTATE_TESTS_SERVER_RPC_RAW_CALL_H_

#include <memory>
#include <optional>
#include <string>

#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"
#include "tests/server/rpc/open_server.h"

namespace steadystate {

// A call whose messages are any bytes, as a client that is not ours may send
// them. One operation at a time, each of which waits.
class RawCall {
 public:
  // `path`: "/package.Service/Method".
  RawCall(const std::shared_ptr<grpc::Channel>& channel,
          const std::string& path);
  // Cancels it if it has not ended.
  ~RawCall();
  RawCall(const RawCall&) = delete;
  RawCall& operator=(const RawCall&) = delete;

  // False if the call has ended.
  bool Write(const std::string& bytes);
  bool WritesDone();
  // Nothing if the call has ended.
  std::optional<std::string> Read();
  grpc::Status Finish();

 private:
  bool Done();

  Context context_;
  grpc::CompletionQueue queue_;
  grpc::GenericStub stub_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  bool finished_ = false;
};

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_SERVER_RPC_RAW_CALL_H_
