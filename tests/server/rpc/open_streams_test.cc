// Goal: every stream hears of what happens to the server, whenever it was
// opened, and none is called after it was removed. Method: streams that count
// what they are told; a hook holds the one who tells them, between two of them.
#include "server/rpc/open_streams.h"

#include <memory>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/testing/parked_threads.h"

namespace steadystate::open_streams_test {
namespace {

const absl::Time kUntil = absl::FromUnixSeconds(1'000'000'000);

// What it was told. Thread-compatible.
struct CountingStream : OpenStream {
  void GoAway(absl::Time requests_until) override {
    EXPECT_EQ(requests_until, kUntil);
    EXPECT_EQ(drained, 0) << "it was to end before";
    ++told;
  }
  void Drain() override { ++drained; }
  void Tick(SteadyTime /*now*/) override { ++ticks; }

  int told = 0;
  int drained = 0;
  int ticks = 0;
};

TEST(OpenStreamsTest, TellsThoseThatAreThere) {
  OpenStreams streams;
  CountingStream there;
  CountingStream removed;
  streams.Add(there);
  streams.Add(removed);
  EXPECT_EQ(there.told + there.drained, 0);
  streams.Remove(removed);
  streams.GoAway(kUntil);
  EXPECT_EQ(there.told, 1);
  EXPECT_EQ(there.drained, 0);
  streams.Drain();
  streams.Tick(SteadyTime());
  EXPECT_EQ(there.told, 1);
  EXPECT_EQ(there.drained, 1);
  EXPECT_EQ(there.ticks, 1);
  EXPECT_EQ(removed.told + removed.drained + removed.ticks, 0);
}

TEST(OpenStreamsTest, TellsThoseThatComeLater) {
  OpenStreams streams;
  streams.GoAway(kUntil);
  CountingStream told;
  streams.Add(told);
  EXPECT_EQ(told.told, 1);
  EXPECT_EQ(told.drained, 0);
  streams.Drain();
  CountingStream drained;
  streams.Add(drained);
  EXPECT_EQ(drained.told, 1);
  EXPECT_EQ(drained.drained, 1);
}

TEST(OpenStreamsTest, TellsEachOfMany) {
  OpenStreams streams;
  std::vector<CountingStream> many(1000);
  for (CountingStream& stream : many) streams.Add(stream);
  streams.GoAway(kUntil);
  for (const CountingStream& stream : many) EXPECT_EQ(stream.told, 1);
}

// Whoever opens or ends a stream meanwhile does not wait for the whole list.
TEST(OpenStreamsTest, StreamsComeAndGoWhileManyAreTold) {
  OpenStreams streams;
  std::vector<CountingStream> many(64);
  std::vector<CountingStream> later(64);
  for (CountingStream& stream : many) streams.Add(stream);
  {
    ThreadHold hold("OpenStreams::ForEach");
    std::thread teller([&] { streams.GoAway(kUntil); });
    hold.WaitUntilHeld();
    for (size_t i = 0; i < many.size(); i += 2) streams.Remove(many[i]);
    for (CountingStream& stream : later) streams.Add(stream);
    hold.Release();
    teller.join();
  }
  int removed_before = 0;
  for (size_t i = 0; i < many.size(); ++i) {
    if (i % 2 == 0) {
      removed_before += many[i].told == 0 ? 1 : 0;
    } else {
      EXPECT_EQ(many[i].told, 1) << i;
    }
  }
  EXPECT_GT(removed_before, 0) << "they were told before they could be removed";
  // Told when they were added, and maybe once more: they tell their clients
  // once.
  for (const CountingStream& stream : later) EXPECT_GE(stream.told, 1);
}

}  // namespace
}  // namespace steadystate::open_streams_test
