// Goal: work is done once, on another thread, and then let go of.
#include "server/rpc/run_soon.h"

#include <future>
#include <memory>
#include <thread>

#include "gtest/gtest.h"

namespace steadystate {
namespace {

TEST(RunSoonTest, RunsOnAnotherThreadAndLetsGo) {
  std::promise<std::thread::id> thread;
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> weak = held;
  RunSoon([held = std::move(held), &thread] {
    thread.set_value(std::this_thread::get_id());
  });
  EXPECT_NE(thread.get_future().get(), std::this_thread::get_id());
  while (!weak.expired()) std::this_thread::yield();
}

}  // namespace
}  // namespace steadystate
