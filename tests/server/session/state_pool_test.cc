// Goal: slots are lent against an exact budget, always zeroed, and cost no
// memory before they are touched. Method: write into slots and look at the
// pages behind them.
#include "server/session/state_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/error.h"

namespace steadystate::state_pool_test {
namespace {

constexpr SlotSize kFixed{.bytes = 1920, .fixed_bytes = 1920};
// The fixed part ends within a page.
constexpr SlotSize kGrowing{.bytes = (size_t{1} << 20) + 192,
                            .fixed_bytes = 4096 + 320};

bool AllZero(const std::byte* bytes, size_t count) {
  return std::all_of(bytes, bytes + count,
                     [](std::byte b) { return b == std::byte{0}; });
}

// Pages of [from, from + bytes) that take memory, those only partly within it
// left out.
size_t ResidentPages(const std::byte* from, size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(from);
  const size_t skip = (page - address % page) % page;
  const size_t pages = (bytes - skip) / page;
  std::vector<unsigned char> resident(pages);
  void* const start = const_cast<std::byte*>(from) + skip;
  if (mincore(start, pages * page, resident.data()) != 0) return SIZE_MAX;
  return static_cast<size_t>(
      std::count_if(resident.begin(), resident.end(),
                    [](unsigned char flags) { return (flags & 1) != 0; }));
}

// The lines of /proc/self/smaps about the mapping that has this byte; none
// where the system tells nothing.
std::vector<std::string> MappingOf(const std::byte* byte) {
  const auto wanted = reinterpret_cast<uintptr_t>(byte);
  std::ifstream maps("/proc/self/smaps");
  std::vector<std::string> lines;
  bool within = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    // NOLINTNEXTLINE(cert-err34-c)
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) ==
        2) {
      within = begin <= wanted && wanted < end;
    }
    if (within) lines.push_back(line);
  }
  return lines;
}

ErrorReason ReasonOf(const absl::Status& status) {
  const auto details = GetErrorDetails(status);
  return details.has_value() ? details->reason : ErrorReason::kInternal;
}

TEST(StatePoolTest, RefusesExactlyAtTheBudget) {
  // Room for three, and one byte too little for a fourth.
  StatePool pool(kFixed, 2000, 4 * 2000 - 1);
  EXPECT_EQ(pool.capacity(), 3u);
  std::vector<StateLease> leases;
  for (uint64_t i = 1; i <= 3; ++i) {
    auto lease = pool.Allocate();
    ASSERT_TRUE(lease.ok()) << lease.status();
    leases.push_back(std::move(*lease));
    EXPECT_EQ(pool.lent(), i);
  }
  const absl::Status refused = pool.Allocate().status();
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kStateBudgetExhausted);
  EXPECT_THAT(std::string(refused.message()),
              testing::HasSubstr("raise the server's --state_memory"));
  leases.pop_back();
  EXPECT_EQ(pool.lent(), 2u);
  EXPECT_TRUE(pool.Allocate().ok());
}

TEST(StatePoolTest, SlotsAreAlignedAndDisjoint) {
  StatePool pool(kFixed, kFixed.bytes, 1000 * kFixed.bytes);
  std::vector<StateLease> leases;
  std::set<const std::byte*> starts;
  for (int i = 0; i < 1000; ++i) {
    leases.push_back(*pool.Allocate());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(leases.back().bytes()) % 64, 0u);
    starts.insert(leases.back().bytes());
  }
  ASSERT_EQ(starts.size(), leases.size());
  const std::byte* end = nullptr;
  for (const std::byte* start : starts) {
    EXPECT_GE(start, end);
    end = start + kFixed.bytes;
  }
}

TEST(StatePoolTest, AReusedSlotEqualsAFreshOne) {
  StatePool pool(kFixed, kFixed.bytes, kFixed.bytes);
  const std::byte* first = nullptr;
  for (int round = 1; round <= 3; ++round) {
    StateLease lease = *pool.Allocate();
    if (round == 1) first = lease.bytes();
    EXPECT_EQ(lease.bytes(), first);
    EXPECT_TRUE(AllZero(lease.bytes(), kFixed.bytes));
    lease.MarkUsed(kFixed.bytes);
    std::memset(lease.bytes(), 0xa5, kFixed.bytes);
  }
}

TEST(StatePoolTest, GrowingSlotsComeBackZeroedWhereTheyWereUsed) {
  for (const size_t used :
       {kGrowing.fixed_bytes, kGrowing.fixed_bytes + 64,
        kGrowing.fixed_bytes + 9000, kGrowing.bytes - 8, kGrowing.bytes}) {
    // Two slots, so that one of them begins within a page.
    StatePool pool(kGrowing, kGrowing.bytes, 2 * kGrowing.bytes);
    const std::byte* first = nullptr;
    {
      StateLease a = *pool.Allocate();
      StateLease b = *pool.Allocate();
      first = a.bytes();
      for (StateLease* lease : {&a, &b}) {
        std::memset(lease->bytes(), 0xa5, used);
        lease->MarkUsed(used);
      }
    }
    const StateLease a = *pool.Allocate();
    const StateLease b = *pool.Allocate();
    EXPECT_TRUE(a.bytes() == first || b.bytes() == first);
    EXPECT_TRUE(AllZero(a.bytes(), kGrowing.bytes)) << used;
    EXPECT_TRUE(AllZero(b.bytes(), kGrowing.bytes)) << used;
  }
}

TEST(StatePoolTest, ClearingASlotLeavesItsNeighboursAlone) {
  StatePool pool(kGrowing, kGrowing.bytes, 3 * kGrowing.bytes);
  std::vector<StateLease> leases;
  for (int i = 0; i < 3; ++i) {
    leases.push_back(*pool.Allocate());
    std::memset(leases.back().bytes(), 0xa5, kGrowing.bytes);
    leases.back().MarkUsed(kGrowing.bytes);
  }
  leases.erase(leases.begin() + 1);
  for (const StateLease& lease : leases) {
    EXPECT_TRUE(std::all_of(lease.bytes(), lease.bytes() + kGrowing.bytes,
                            [](std::byte b) { return b == std::byte{0xa5}; }));
  }
}

TEST(StatePoolTest, UntouchedMemoryIsNeverTouchedAndUsedPagesGoBack) {
  StatePool pool(kGrowing, kGrowing.bytes, kGrowing.bytes);
  const std::byte* bytes = nullptr;
  {
    StateLease lease = *pool.Allocate();
    bytes = lease.bytes();
    EXPECT_EQ(ResidentPages(bytes, kGrowing.bytes), 0u);
    const size_t used = kGrowing.fixed_bytes + 20000;
    std::memset(lease.bytes(), 0xa5, used);
    lease.MarkUsed(used);
    EXPECT_LE(ResidentPages(bytes, kGrowing.bytes), 7u);
  }
  // The page that the fixed part ends in stays.
  EXPECT_LE(ResidentPages(bytes, kGrowing.bytes), 2u);
}

TEST(StatePoolTest, ASlotThatNobodyWroteIsNotTouchedWhenItComesBack) {
  constexpr SlotSize kLarge{.bytes = size_t{1} << 20,
                            .fixed_bytes = size_t{1} << 20};
  for (const SlotSize& size : {kLarge, kGrowing}) {
    constexpr size_t kSlots = 8;
    StatePool pool(size, size.bytes, kSlots * size.bytes);
    std::vector<StateLease> leases;
    for (size_t i = 0; i < kSlots; ++i) leases.push_back(*pool.Allocate());
    std::vector<const std::byte*> slots;
    for (const StateLease& lease : leases) slots.push_back(lease.bytes());
    leases.clear();
    for (const std::byte* slot : slots) {
      EXPECT_EQ(ResidentPages(slot, size.bytes), 0u);
    }
    // Lent again, it is one that may be written.
    for (int round = 0; round < 2; ++round) {
      StateLease lease = *pool.Allocate();
      EXPECT_TRUE(AllZero(lease.bytes(), size.bytes));
      lease.MarkUsed(size.bytes);
      std::memset(lease.bytes(), 0xa5, size.bytes);
    }
  }
}

TEST(StatePoolTest, ABudgetCostsNothingBeforeItIsUsed) {
  constexpr SlotSize kLarge{.bytes = size_t{50} << 20,
                            .fixed_bytes = size_t{50} << 20};
  StatePool pool(kLarge, kLarge.bytes, uint64_t{4} << 30);
  const StateLease lease = *pool.Allocate();
  EXPECT_EQ(ResidentPages(lease.bytes(), kLarge.bytes), 0u);
}

// Whatever the system does with memory that asks for nothing.
TEST(StatePoolTest, SlotsThatGrowRefuseHugePages) {
  StatePool pool(kGrowing, kGrowing.bytes, 4 * kGrowing.bytes);
  const auto lease = pool.Allocate();
  ASSERT_TRUE(lease.ok());
  std::string flags;
  for (const std::string& line : MappingOf(lease->bytes())) {
    if (line.rfind("VmFlags:", 0) == 0) flags = line;
  }
  if (flags.empty() || madvise(nullptr, 0, MADV_NOHUGEPAGE) != 0) {
    GTEST_SKIP() << "no huge pages here";
  }
  EXPECT_THAT(flags, testing::HasSubstr(" nh")) << flags;
}

// Each with a slab of its own: the address space of one slot is that large.
TEST(StatePoolTest, ManySlotsAreFewMappings) {
  constexpr size_t kSlots = 64;
  constexpr SlotSize kLarge{.bytes = (size_t{40} << 20) + 192,
                            .fixed_bytes = 4096};
  StatePool pool(kLarge, 4096, kSlots * 4096);
  std::vector<StateLease> leases;
  std::set<std::string> mappings;
  for (size_t i = 0; i < kSlots; ++i) {
    auto lease = pool.Allocate();
    ASSERT_TRUE(lease.ok()) << lease.status();
    lease->MarkUsed(1);
    lease->bytes()[0] = std::byte{1};
    leases.push_back(*std::move(lease));
  }
  for (const StateLease& lease : leases) {
    const std::vector<std::string> lines = MappingOf(lease.bytes());
    if (lines.empty()) GTEST_SKIP() << "the system does not tell";
    mappings.insert(lines.front());
  }
  // What else is mapped may lie in between.
  EXPECT_LE(mappings.size(), 8u);
}

TEST(StatePoolTest, ThreadsBorrowAndReturnAtOnce) {
  constexpr size_t kThreads = 4;
  StatePool pool(kFixed, kFixed.bytes, kThreads * kFixed.bytes);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&pool] {
      for (int i = 0; i < 500; ++i) {
        auto lease = pool.Allocate();
        ASSERT_TRUE(lease.ok());
        ASSERT_TRUE(AllZero(lease->bytes(), kFixed.bytes));
        lease->MarkUsed(kFixed.bytes);
        std::memset(lease->bytes(), 0xa5, kFixed.bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool.lent(), 0u);
}

}  // namespace
}  // namespace steadystate::state_pool_test
