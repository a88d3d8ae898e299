#ifndef STEADYSTATE_TESTS_E2E_STORED_SERVER_H_
#define STEADYSTATE_TESTS_E2E_STORED_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "grpcpp/channel.h"
#include "grpcpp/support/status.h"
#include "steadystate/v1/generation.grpc.pb.h"
#include "steadystate/v1/session.grpc.pb.h"
#include "tests/client/process.h"
#include "tests/testing/temp_directory.h"
#include "tests/testing/tiny_model.h"

namespace steadystate {

// The real server on a tiny model with a store, to be started again and again.
// Whatever fails that is not returned fails the test. Thread-compatible.
class StoredServer {
 public:
  // `store`: the directory, empty for one of its own.
  explicit StoredServer(const std::string& store = "");

  // The command line that starts it.
  std::vector<std::string> Command(const std::vector<std::string>& flags) const;

  // Starts the server and waits until it is ready.
  void Start(const std::vector<std::string>& flags = {});
  // Ends it by SIGTERM: in order.
  void End();
  // Ends it by SIGTERM or SIGKILL and starts it with these flags.
  void Restart(int signal, const std::vector<std::string>& flags = {});

  // -> "sessions/{id}".
  std::string Create(
      const std::string& id,
      v1::Session::Durability durability = v1::Session::DURABILITY_UNSPECIFIED);
  v1::Session Get(const std::string& name);
  size_t Count();

  // Draws tokens, always with the same seed. -> their text.
  std::string Generate(const std::string& session, const std::string& prompt,
                       uint64_t tokens);
  // The same by a request that is carried out once, however often it comes.
  // `text` is what had come when it ended.
  grpc::Status GenerateOnce(const std::string& session, uint64_t position,
                            const std::string& prompt, uint64_t tokens,
                            std::string& text);

  v1::SessionService::Stub& sessions() { return *sessions_; }
  v1::GenerationService::Stub& generation() { return *generation_; }
  // "127.0.0.1:PORT".
  const std::string& metrics_address() const { return metrics_address_; }
  // What it has logged.
  std::string Log() const { return ReadWholeFile(directory_.path() + "/log"); }
  // For files of the test.
  const std::string& directory() const { return directory_.path(); }

 private:
  grpc::Status Generate(const v1::GenerateRequest& request, std::string& text);

  const TinyModel model_;
  const TempDirectory directory_;
  const std::string store_;
  std::unique_ptr<Process> server_;
  std::string metrics_address_;
  std::unique_ptr<v1::SessionService::Stub> sessions_;
  std::unique_ptr<v1::GenerationService::Stub> generation_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_E2E_STORED_SERVER_H_
