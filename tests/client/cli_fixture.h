#ifndef STEADYSTATE_TESTS_CLIENT_CLI_FIXTURE_H_
#define STEADYSTATE_TESTS_CLIENT_CLI_FIXTURE_H_

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/process.h"
#include "tests/testing/temp_directory.h"

namespace steadystate {

// A real server on free ports, and the real command line to talk to it.
class CliFixture : public testing::Test {
 protected:
  // `model`: a path from the repository's root.
  explicit CliFixture(const std::string& model)
      : server_({kServer, "--model", absl::StrCat(kRoot, "/", model),
                 "--weight_dtype", "f32", "--listen", "127.0.0.1:0",
                 "--metrics_listen", "127.0.0.1:0"},
                directory_.path() + "/log") {
    const std::string ready = server_.ReadLine();
    const std::vector<std::string> words =
        absl::StrSplit(ready, absl::ByAnyChar(" ="));
    if (words.size() == 5) {
      address_ = words[2];
      metrics_ = words[4];
    }
    EXPECT_FALSE(address_.empty())
        << ready << ReadWholeFile(directory_.path() + "/log");
  }

  // The server ends in order, whatever was asked of it.
  void TearDown() override {
    server_.Signal(SIGTERM);
    EXPECT_EQ(server_.Wait(), 0) << ReadWholeFile(directory_.path() + "/log");
  }

  // Runs `steadystate ARGUMENTS`, which are read by a shell, and which may end
  // in redirections and pipes.
  Outcome Run(const std::string& arguments) {
    return RunShell(absl::StrCat("export STEADYSTATE_ADDRESS=", address_, "\n",
                                 kClient, " ", arguments),
                    directory_.path());
  }

  // Run, expecting success; its standard output.
  std::string Print(const std::string& arguments) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.code, 0) << arguments << ": " << outcome.err;
    return outcome.out;
  }

  // Print, with --json.
  nlohmann::json Json(const std::string& arguments) {
    return nlohmann::json::parse(Print(arguments + " --json"), nullptr, false);
  }

  // Run, expecting exit code `code`; its standard error.
  std::string Fail(int code, const std::string& arguments) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.code, code) << arguments << ": " << outcome.out;
    return outcome.err;
  }

  static constexpr char kRoot[] = STEADYSTATE_SOURCE_DIR;
  static constexpr char kServer[] = STEADYSTATE_BIN_DIR "/steadystate-server";
  static constexpr char kClient[] = STEADYSTATE_BIN_DIR "/steadystate";

  const TempDirectory directory_;
  Process server_;
  std::string address_;
  std::string metrics_;  // where they are served
};

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_CLIENT_CLI_FIXTURE_H_
