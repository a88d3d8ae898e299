// Goal: options out of bounds are refused with option, value and bound.
// Method: each bound, just kept and just broken.
#include "client/load/load_options.h"

#include <functional>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::client {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string ErrorOf(const std::function<void(LoadOptions&)>& change) {
  LoadOptions options;
  change(options);
  return std::string(Validate(options).message());
}

TEST(LoadOptionsTest, DefaultsAndExtremesAreFine) {
  EXPECT_EQ(ErrorOf([](LoadOptions&) {}), "");
  EXPECT_EQ(ErrorOf([](LoadOptions& o) {
              o.sessions = 1000000;
              o.streams = 1024;
              o.prompt_tokens = 1048576;
              o.generate_tokens = 1000000000;
              o.rate = 1e6;
              o.warmup = o.duration = o.drain = absl::Hours(24 * 365);
            }),
            "");
  EXPECT_EQ(ErrorOf([](LoadOptions& o) {
              o.sessions = o.streams = o.prompt_tokens = o.generate_tokens = 1;
              o.warmup = o.duration = o.drain = absl::ZeroDuration();
              o.max_send_lag = absl::ZeroDuration();
            }),
            "");
}

TEST(LoadOptionsTest, ErrorsNameOptionValueAndBound) {
  EXPECT_EQ(ErrorOf([](LoadOptions& o) { o.sessions = 0; }),
            "--sessions is 0; it must be 1 to 1000000");
  EXPECT_THAT(ErrorOf([](LoadOptions& o) { o.streams = 1025; }),
              AllOf(HasSubstr("--streams is 1025"), HasSubstr("1024")));
  EXPECT_THAT(ErrorOf([](LoadOptions& o) { o.prompt_tokens = 1048577; }),
              AllOf(HasSubstr("--prompt_tokens"), HasSubstr("1048576")));
  EXPECT_THAT(ErrorOf([](LoadOptions& o) { o.generate_tokens = 0; }),
              HasSubstr("--generate_tokens is 0"));
  EXPECT_THAT(ErrorOf([](LoadOptions& o) { o.streams = 9; }),
              AllOf(HasSubstr("--streams is 9"), HasSubstr("8")));
  EXPECT_THAT(ErrorOf([](LoadOptions& o) { o.duration = -absl::Seconds(1); }),
              HasSubstr("--duration is -1s"));
  EXPECT_THAT(
      ErrorOf([](LoadOptions& o) { o.warmup = absl::InfiniteDuration(); }),
      HasSubstr("--warmup"));
}

TEST(LoadOptionsTest, TheRateIsAFiniteNumber) {
  for (const double rate : {-1.0, 1e7, std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THAT(ErrorOf([rate](LoadOptions& o) { o.rate = rate; }),
                HasSubstr("--rate is"));
  }
}

}  // namespace
}  // namespace steadystate::client
