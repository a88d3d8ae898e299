#include "tests/bench/server_process.h"

#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace steadystate::bench {
namespace {

namespace fs = std::filesystem;

// What `program` stands for: empty means that beside this one.
std::string PathOf(const std::string& program) {
  if (!program.empty()) return program;
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path() /
         "steadystate-server";
}

// "listening grpc=HOST:PORT metrics=HOST:PORT".
std::string AddressIn(const std::string& line) {
  const std::vector<std::string> words =
      absl::StrSplit(line, absl::ByAnyChar(" ="));
  return words.size() == 5 && words[0] == "listening" ? words[2] : "";
}

}  // namespace

absl::Status ServerProcess::Check(const std::string& program) {
  const std::string path = PathOf(program);
  std::error_code error;
  if (fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", path, "' is no program that can be run; --server says ",
                   "where the server is"));
}

absl::StatusOr<std::unique_ptr<ServerProcess>> ServerProcess::Start(
    const std::string& program, const std::vector<std::string>& flags) {
  std::vector<std::string> arguments = {PathOf(program), "--listen=127.0.0.1:0",
                                        "--metrics_listen=127.0.0.1:0",
                                        "--log_level=warning"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  std::unique_ptr<ServerProcess> server(new ServerProcess);
  const std::string log = server->directory_.path() + "/log";
  server->process_ = std::make_unique<Process>(arguments, log);
  const std::string line = server->process_->ReadLine();
  server->address_ = AddressIn(line);
  if (!server->address_.empty()) return server;
  if (!line.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(arguments[0], " does not say where it listens: ", line));
  }
  const int code = server->process_->Wait();
  const std::string said = ReadWholeFile(log);
  return absl::FailedPreconditionError(absl::StrCat(
      arguments[0], " does not come up: ",
      said.empty() ? absl::StrCat("it ended with ", code, " and said nothing")
                   : said));
}

absl::Status ServerProcess::Stop() {
  process_->Signal(SIGTERM);
  const int code = process_->Wait();
  const std::string said = ReadWholeFile(directory_.path() + "/log");
  if (code == 0 && !absl::StrContains(said, "sessions not stored")) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the server ended with ", code, ": ", said));
}

double ServerProcess::CpuSeconds() const {
  std::ifstream file(absl::StrCat("/proc/", process_->pid(), "/stat"));
  std::string line;
  std::getline(file, line);
  // The name, in parentheses, may have blanks; the times are 14 and 15.
  const std::vector<std::string> fields =
      absl::StrSplit(line.substr(line.rfind(')') + 1), ' ');
  constexpr size_t kUserTime = 12;
  double ticks = 0;
  for (size_t i = kUserTime; i < kUserTime + 2 && i < fields.size(); ++i) {
    double value = 0;
    if (absl::SimpleAtod(fields[i], &value)) ticks += value;
  }
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

uint64_t ServerProcess::WrittenBytes() const {
  std::ifstream file(absl::StrCat("/proc/", process_->pid(), "/io"));
  std::string field;
  uint64_t bytes = 0;
  while (file >> field >> bytes) {
    if (field == "write_bytes:") return bytes;
  }
  return 0;
}

uint64_t ServerProcess::StatusBytes(const std::string& field) const {
  std::ifstream file(absl::StrCat("/proc/", process_->pid(), "/status"));
  for (std::string line; std::getline(file, line);) {
    if (!absl::StartsWith(line, field)) continue;
    uint64_t kibibytes = 0;
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (words.size() >= 2 && absl::SimpleAtoi(words[1], &kibibytes)) {
      return kibibytes * 1024;
    }
  }
  return 0;
}

}  // namespace steadystate::bench
