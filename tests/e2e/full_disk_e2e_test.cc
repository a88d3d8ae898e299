// Goal: a disk that is full costs nobody a step that was answered, and those
// who need no disk nothing at all; when there is room again everything goes on
// without a restart, and after a kill. Method: the real binary, its store on a
// small file system of its own in memory, which a file fills.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "client/steadystate/error.h"
#include "gtest/gtest.h"
#include "tests/e2e/stored_server.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::full_disk_e2e_test {
namespace {

// A file system of some MiB, for as long as it lives.
class SmallDisk {
 public:
  SmallDisk() : path_(directory_.path() + "/disk") {
    if (mkdir(path_.c_str(), 0700) == 0 &&
        mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=24m") == 0) {
      mounted_ = true;
    } else {
      error_ = std::strerror(errno);
    }
  }
  ~SmallDisk() {
    if (mounted_) umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  // Why there is none; empty if there is.
  const std::string& error() const { return error_; }
  std::string path(const std::string& name) const { return path_ + "/" + name; }

  // Writes until nothing more fits.
  void Fill() const {
    const int file =
        open(path("ballast").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    ASSERT_GE(file, 0);
    const std::vector<char> bytes(4096);
    while (write(file, bytes.data(), bytes.size()) > 0) {
    }
    EXPECT_EQ(errno, ENOSPC);
    close(file);
  }
  void Empty() const { EXPECT_EQ(unlink(path("ballast").c_str()), 0); }

 private:
  const TempDirectory directory_;
  const std::string path_;
  bool mounted_ = false;
  std::string error_;
};

// A client that tells a story in one session, and asks again for what it was
// not answered.
class Teller {
 public:
  Teller(StoredServer& server, const std::string& id,
         v1::Session::Durability durability)
      : server_(server), session_(server.Create(id, durability)) {
    std::string text;
    EXPECT_TRUE(server.GenerateOnce(session_, 0, "once", 10, text).ok());
    Take(text);
  }

  grpc::Status Go() {
    std::string text;
    const grpc::Status status =
        server_.GenerateOnce(session_, position_, "", 50, text);
    if (status.ok()) Take(text);
    return status;
  }
  // Until that fails, or does not fail, and no longer than half a minute: that
  // a disk is full shows when the room that files had there is used up. -> the
  // last outcome.
  grpc::Status GoUntil(bool ok) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    grpc::Status status;
    do {
      status = Go();
    } while (status.ok() != ok && std::chrono::steady_clock::now() < end);
    return status;
  }

  const std::string& story() const { return story_; }

 private:
  static constexpr std::chrono::seconds kPatience{30};

  void Take(const std::string& text) {
    story_ += text;
    position_ = server_.Get(session_).position();
  }

  StoredServer& server_;
  const std::string session_;
  std::string story_;
  uint64_t position_ = 0;
};

void ExpectUnavailable(const grpc::Status& status) {
  const absl::Status error = client::ToStatus(status);
  EXPECT_EQ(client::ReasonOf(error), v1::STORE_UNAVAILABLE) << error;
  const auto details = client::GetErrorDetails(error);
  ASSERT_TRUE(details.has_value());
  EXPECT_TRUE(details->retry_after.has_value());
}

TEST(FullDiskE2eTest, NothingThatWasAnsweredIsLost) {
  const SmallDisk disk;
  if (!disk.error().empty()) {
    GTEST_SKIP() << "no file system can be mounted here: " << disk.error();
  }
  StoredServer server(disk.path("store"));
  server.Start();
  const std::string expected =
      server.Generate(server.Create("whole", v1::Session::NONE), "once", 20000);
  Teller logged(server, "logged", v1::Session::LOG);
  Teller synced(server, "synced", v1::Session::SYNC);
  Teller at_the_end(server, "at-the-end", v1::Session::SHUTDOWN);
  Teller in_memory(server, "in-memory", v1::Session::NONE);

  disk.Fill();
  ExpectUnavailable(logged.GoUntil(false));
  ExpectUnavailable(synced.GoUntil(false));
  // Others are served meanwhile.
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(at_the_end.Go().ok());
    EXPECT_TRUE(in_memory.Go().ok());
  }
  EXPECT_EQ(at_the_end.story(), expected.substr(0, at_the_end.story().size()));
  EXPECT_EQ(in_memory.story(), at_the_end.story());

  disk.Empty();
  EXPECT_TRUE(logged.GoUntil(true).ok());
  EXPECT_TRUE(synced.GoUntil(true).ok());
  server.Restart(SIGKILL);
  EXPECT_TRUE(logged.Go().ok());
  EXPECT_TRUE(synced.Go().ok());
  EXPECT_EQ(logged.story(), expected.substr(0, logged.story().size()));
  EXPECT_EQ(synced.story(), expected.substr(0, synced.story().size()));
}

}  // namespace
}  // namespace steadystate::full_disk_e2e_test
