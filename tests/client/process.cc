#include "tests/client/process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "tests/testing/temp_directory.h"

namespace steadystate {
namespace {

int ExitCode(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Process::Process(const std::vector<std::string>& arguments,
                 const std::string& stderr_path) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
  pid_ = fork();
  if (pid_ < 0) std::abort();
  if (pid_ == 0) {
    const int error =
        open(stderr_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    dup2(ends[1], STDOUT_FILENO);
    dup2(error, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(ends[1]);
  output_ = ends[0];
}

Process::~Process() {
  if (pid_ > 0) {
    Signal(SIGKILL);
    Wait();
  }
  close(output_);
}

std::string Process::ReadLine() {
  std::string line;
  for (std::string byte = Read(1); !byte.empty() && byte != "\n";
       byte = Read(1)) {
    line += byte;
  }
  return line;
}

std::string Process::Read(size_t count) {
  std::string bytes(count, '\0');
  size_t size = 0;
  while (size < count) {
    const ssize_t read_now = read(output_, bytes.data() + size, count - size);
    if (read_now <= 0) break;
    size += static_cast<size_t>(read_now);
  }
  bytes.resize(size);
  return bytes;
}

void Process::Signal(int signal) const { kill(pid_, signal); }

int Process::Wait() {
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return ExitCode(status);
}

Outcome RunShell(const std::string& command, const std::string& directory) {
  const std::string out = directory + "/stdout";
  const std::string err = directory + "/stderr";
  const int status = std::system(
      absl::StrCat("{ ", command, "\n} </dev/null >", out, " 2>", err).c_str());
  return {ExitCode(status), ReadWholeFile(out), ReadWholeFile(err)};
}

}  // namespace steadystate
