// Goal: who gives lines never waits, what is lost is counted and said where it
// is missing, and what is read comes whole and in order. Method: pipes that are
// full until the test reads them.
#include "server/base/line_writer.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::line_writer_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;

std::string Missing(uint64_t lines) { return absl::StrCat("-", lines, "\n"); }

// A pipe of one page. Its end for writing is never closed: threads of writers
// that have ended may still use it.
class Pipe {
 public:
  Pipe() {
    EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0);
    EXPECT_GE(fcntl(ends_[1], F_SETPIPE_SZ, 4096), 4096);
  }
  ~Pipe() { CloseReader(); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int writer() const { return ends_[1]; }
  void CloseReader() {
    if (ends_[0] >= 0) close(ends_[0]);
    ends_[0] = -1;
  }

  // Waits for a whole line.
  std::string ReadLine() const {
    std::string line;
    for (char byte = 0; byte != '\n';) {
      if (read(ends_[0], &byte, 1) != 1) return line;
      line.push_back(byte);
    }
    return line;
  }

 private:
  int ends_[2] = {-1, -1};
};

TEST(LineWriterTest, WritesLinesInOrder) {
  const Pipe pipe;
  LineWriter writer(pipe.writer(), 1 << 16);
  for (int i = 0; i < 100; ++i) writer.Write(absl::StrCat(i, "\n"));
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(pipe.ReadLine(), absl::StrCat(i, "\n"));
  }
  EXPECT_TRUE(writer.Flush(minutes(5)));
  EXPECT_EQ(writer.dropped(), 0u);
}

// Writes numbered lines, far more than fit, while nobody reads. Then each is
// either read or in the count of a note that stands in its place.
TEST(LineWriterTest, NeverWaitsAndSaysWhatIsMissingWhereItIs) {
  const Pipe pipe;
  LineWriter writer(pipe.writer(), 8192, &Missing);
  const std::string rest = " " + std::string(100, 'x') + "\n";
  constexpr uint64_t kLines = 1000;
  for (uint64_t i = 0; i < kLines; ++i) writer.Write(absl::StrCat(i, rest));
  EXPECT_FALSE(writer.Flush(milliseconds(1)));
  EXPECT_GT(writer.dropped(), kLines / 2);

  uint64_t next = 0;
  uint64_t missing = 0;
  while (next < kLines) {
    const std::string line = pipe.ReadLine();
    int64_t number = 0;
    ASSERT_TRUE(absl::SimpleAtoi(line.substr(0, line.find(' ')), &number));
    if (number < 0) {
      missing += static_cast<uint64_t>(-number);
      next += static_cast<uint64_t>(-number);
    } else {
      ASSERT_EQ(number, next);
      ASSERT_TRUE(absl::EndsWith(line, rest));
      ++next;
    }
  }
  EXPECT_EQ(next, kLines);
  EXPECT_EQ(missing, writer.dropped());
  writer.Write("after\n");
  EXPECT_EQ(pipe.ReadLine(), "after\n");
}

TEST(LineWriterTest, HoldsNoMoreThanItsBytesOfShortLines) {
  const Pipe pipe;
  LineWriter writer(pipe.writer(), 64 * 100);
  for (int i = 0; i < 100'000; ++i) writer.Write("\n");
  EXPECT_GE(writer.dropped(), 100'000u - 100u - 4096u - 1u);
}

TEST(LineWriterTest, CountsWhatADescriptorDoesNotTake) {
  signal(SIGPIPE, SIG_IGN);
  Pipe pipe;
  pipe.CloseReader();
  LineWriter writer(pipe.writer(), 8192, &Missing);
  writer.Write("nobody sees this\n");
  EXPECT_TRUE(writer.Flush(minutes(5)));
  EXPECT_EQ(writer.dropped(), 1u);
}

TEST(LineWriterTest, WaitsWhereAnotherMadeTheDescriptorNonBlocking) {
  const Pipe pipe;
  ASSERT_EQ(fcntl(pipe.writer(), F_SETFL, O_NONBLOCK), 0);
  LineWriter writer(pipe.writer(), 1 << 16);
  const std::string line = std::string(999, 'x') + "\n";
  for (int i = 0; i < 20; ++i) writer.Write(line);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(pipe.ReadLine(), line);
  EXPECT_TRUE(writer.Flush(minutes(5)));
  EXPECT_EQ(writer.dropped(), 0u);
}

TEST(LineWriterTest, MayEndWhileItsThreadWaits) {
  const Pipe pipe;
  const std::string line = std::string(4095, 'x') + "\n";
  {
    LineWriter writer(pipe.writer(), 1 << 16);
    for (int i = 0; i < 8; ++i) writer.Write(line);
  }
  for (int i = 0; i < 8; ++i) EXPECT_EQ(pipe.ReadLine(), line);
}

TEST(LineWriterTest, LinesOfManyThreadsStayWhole) {
  const Pipe pipe;
  LineWriter writer(pipe.writer(), 1 << 20);
  std::vector<std::thread> threads;
  for (char letter = 'a'; letter < 'e'; ++letter) {
    threads.emplace_back([&writer, letter] {
      for (int i = 0; i < 200; ++i) {
        writer.Write(std::string(50, letter) + "\n");
      }
    });
  }
  for (int i = 0; i < 800; ++i) {
    const std::string line = pipe.ReadLine();
    EXPECT_EQ(line, std::string(50, line[0]) + "\n");
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(writer.dropped(), 0u);
}

}  // namespace
}  // namespace steadystate::line_writer_test
