// Goal: lines come one by one whatever their pieces, a wait can be ended, and
// no line takes memory without end. Method: a pipe.
#include "client/cli/line_reader.h"

#include <unistd.h>

#include <array>
#include <thread>

#include "gtest/gtest.h"

namespace steadystate::client::line_reader_test {
namespace {

using Event = LineReader::Event;

class LineReaderTest : public testing::Test {
 protected:
  LineReaderTest() { EXPECT_EQ(pipe(pipe_.data()), 0); }
  ~LineReaderTest() override {
    close(pipe_[0]);
    CloseWriter();
  }
  void Write(const std::string& text) {
    ASSERT_EQ(write(pipe_[1], text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
  }
  void CloseWriter() {
    if (pipe_[1] >= 0) close(pipe_[1]);
    pipe_[1] = -1;
  }

  std::array<int, 2> pipe_{};
  std::string line_;
};

TEST_F(LineReaderTest, LinesComeOneByOneAndTheLastNeedsNoEnd) {
  LineReader reader(pipe_[0], 100);
  Write("one\n\ntwo");
  CloseWriter();
  EXPECT_EQ(reader.Next(line_), Event::kLine);
  EXPECT_EQ(line_, "one");
  EXPECT_EQ(reader.Next(line_), Event::kLine);
  EXPECT_EQ(line_, "");
  EXPECT_EQ(reader.Next(line_), Event::kLine);
  EXPECT_EQ(line_, "two");
  EXPECT_EQ(reader.Next(line_), Event::kEnd);
  EXPECT_EQ(reader.Next(line_), Event::kEnd);
}

TEST_F(LineReaderTest, ALineThatIsTooLongIsLeftOut) {
  LineReader reader(pipe_[0], 10);
  Write("0123456789\n01234567890\n" + std::string(9000, 'x'));
  Write("\nshort\n");
  EXPECT_EQ(reader.Next(line_), Event::kLine);
  EXPECT_EQ(line_, "0123456789");
  EXPECT_EQ(reader.Next(line_), Event::kTooLong);
  EXPECT_EQ(reader.Next(line_), Event::kTooLong);
  EXPECT_EQ(reader.Next(line_), Event::kLine);
  EXPECT_EQ(line_, "short");
}

TEST_F(LineReaderTest, WakingEndsTheWaitAndLosesNothing) {
  LineReader reader(pipe_[0], 100);
  std::thread waker([&reader] { reader.Wake(); });
  EXPECT_EQ(reader.Next(line_), Event::kWoken);
  waker.join();
  reader.Wake();
  EXPECT_EQ(reader.Next(line_), Event::kWoken);
  Write("half");
  reader.Wake();
  reader.Wake();
  EXPECT_EQ(reader.Next(line_), Event::kWoken);
  Write(" and half\n");
  EXPECT_EQ(reader.Next(line_), Event::kLine);
  EXPECT_EQ(line_, "half and half");
}

TEST_F(LineReaderTest, WhatCannotBeReadIsAtItsEnd) {
  LineReader reader(pipe_[1], 100);  // the end to write to
  CloseWriter();
  EXPECT_EQ(reader.Next(line_), Event::kEnd);
}

}  // namespace
}  // namespace steadystate::client::line_reader_test
