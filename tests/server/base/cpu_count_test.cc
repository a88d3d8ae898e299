#include "server/base/cpu_count.h"

#include <sched.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "gtest/gtest.h"
#include "tests/testing/temp_directory.h"

namespace steadystate {
namespace {

TEST(ParseCpuMaxTest, ReadsQuotaOverPeriod) {
  EXPECT_EQ(ParseCpuMax("200000 100000\n"), 2.0);
  EXPECT_EQ(ParseCpuMax("50000 100000"), 0.5);
}

TEST(ParseCpuMaxTest, ReadsNoLimit) {
  for (const char* text : {"max 100000\n", "", "-1 100000", "100000", "1 0"}) {
    EXPECT_FALSE(ParseCpuMax(text).has_value()) << text;
  }
}

TEST(CgroupCpuQuotaTest, TakesTheSmallestAlongThePath) {
  const TempDirectory directory;
  const std::filesystem::path root = directory.path();
  std::filesystem::create_directories(root / "a" / "b");
  std::ofstream(root / "cpu.max") << "max 100000\n";
  std::ofstream(root / "a" / "cpu.max") << "150000 100000\n";
  std::ofstream(root / "a" / "b" / "cpu.max") << "400000 100000\n";
  EXPECT_EQ(CgroupCpuQuota(root, "/a/b"), 1.5);
  EXPECT_EQ(CgroupCpuQuota(root, "/"), std::nullopt);
  EXPECT_EQ(CgroupCpuQuota(root, "/missing"), std::nullopt);
  // Version 1 of cgroups states it in two files.
  std::filesystem::create_directories(root / "v1");
  std::ofstream(root / "v1" / "cpu.cfs_quota_us") << "300000\n";
  std::ofstream(root / "v1" / "cpu.cfs_period_us") << "100000\n";
  EXPECT_EQ(CgroupCpuQuota(root, "/v1"), 3.0);
}

TEST(UsableCpusTest, RespectsTheAffinityMask) {
  size_t pinned = 0;
  // Affinity belongs to the thread: a helper leaves the others alone.
  std::thread([&pinned] {
    cpu_set_t mine;
    CPU_ZERO(&mine);
    ASSERT_EQ(sched_getaffinity(0, sizeof(mine), &mine), 0);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &mine)) continue;
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
      break;
    }
    pinned = UsableCpus();
  }).join();
  EXPECT_EQ(pinned, 1u);
  EXPECT_GE(UsableCpus(), 1u);
}

}  // namespace
}  // namespace steadystate
