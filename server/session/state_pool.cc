#include "server/session/state_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"

namespace steadystate {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr size_t kSlabBytes = size_t{32} << 20;

size_t RoundUp(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

size_t PageBytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// Maps `bytes` of zeros. Null if refused. The kernel puts one mapping beside
// the other and counts both as one, of which a process has 65,530 at most.
std::byte* Map(size_t bytes) {
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return mapped == MAP_FAILED ? nullptr : static_cast<std::byte*>(mapped);
}

// The same, beginning at a huge page's boundary, which leaves gaps.
std::byte* MapAligned(size_t bytes) {
  const size_t spare = kHugePageBytes;
  std::byte* const first = Map(bytes + spare);
  if (first == nullptr) return nullptr;
  const auto address = reinterpret_cast<uintptr_t>(first);
  const size_t head = RoundUp(address, kHugePageBytes) - address;
  if (head > 0) munmap(first, head);
  if (spare > head) munmap(first + head + bytes, spare - head);
  return first + head;
}

}  // namespace

StateLease::StateLease(StateLease&& other) noexcept {
  *this = std::move(other);
}

StateLease& StateLease::operator=(StateLease&& other) noexcept {
  if (this != &other) {
    GiveBack();
    pool_ = std::exchange(other.pool_, nullptr);
    bytes_ = std::exchange(other.bytes_, nullptr);
    slot_ = other.slot_;
    used_bytes_ = other.used_bytes_;
    charge_ = std::exchange(other.charge_, 0);
  }
  return *this;
}

StateLease::~StateLease() { GiveBack(); }

void StateLease::GiveBack() {
  if (pool_ != nullptr) pool_->Release(*this);
  pool_ = nullptr;
  bytes_ = nullptr;
  charge_ = 0;
}

bool StateLease::Recharge(uint64_t bytes) {
  if (!pool_->Recharge(charge_, bytes)) return false;
  charge_ = bytes;
  return true;
}

void StateLease::Clear() {
  pool_->Clear(bytes_, used_bytes_);
  used_bytes_ = 0;
}

StatePool::StatePool(SlotSize size, uint64_t lease_bytes, uint64_t budget_bytes,
                     uint64_t least_bytes)
    : size_(size),
      lease_bytes_(lease_bytes),
      budget_bytes_(budget_bytes),
      most_(budget_bytes / (least_bytes == 0 ? lease_bytes : least_bytes)),
      slots_per_slab_(std::clamp<size_t>(kSlabBytes / size.bytes, 1,
                                         std::max<size_t>(most_, 1))) {}

StatePool::~StatePool() {
  for (const Slab& slab : slabs_) munmap(slab.bytes, slab.mapped_bytes);
}

absl::StatusOr<StateLease> StatePool::Allocate(uint64_t bytes) {
  MutexLock lock(mutex_);
  if (lent_ == most_ || bytes > budget_bytes_ - lent_bytes_) {
    return Exhausted(bytes);
  }
  if (free_.empty() && !AddSlab()) {
    return MakeError(
        ErrorReason::kStateBudgetExhausted,
        absl::StrCat("the system refused memory for another session of ",
                     FormatByteSize(bytes),
                     " although the budget allows it: lower "
                     "--state_memory"),
        {{"budget_bytes", absl::StrCat(budget_bytes_)},
         {"session_bytes", absl::StrCat(bytes)}});
  }
  StateLease lease;
  lease.pool_ = this;
  lease.slot_ = free_.back();
  free_.pop_back();
  lease.bytes_ = SlotBytes(lease.slot_);
  lease.charge_ = bytes;
  ++lent_;
  lent_bytes_ += bytes;
  return lease;
}

bool StatePool::HasRoom(uint64_t bytes) const {
  MutexLock lock(mutex_);
  return lent_ < most_ && bytes <= budget_bytes_ - lent_bytes_;
}

bool StatePool::Recharge(uint64_t from, uint64_t to) {
  MutexLock lock(mutex_);
  const uint64_t others = lent_bytes_ - from;
  if (to > budget_bytes_ - others) return false;
  lent_bytes_ = others + to;
  return true;
}

absl::Status StatePool::Exhausted(uint64_t session_bytes) const {
  return MakeError(ErrorReason::kStateBudgetExhausted,
                   absl::StrCat("all ", FormatByteSize(budget_bytes_),
                                " of state memory are in use; a session takes ",
                                FormatByteSize(session_bytes),
                                ": delete sessions or raise "
                                "the server's --state_memory"),
                   {{"budget_bytes", absl::StrCat(budget_bytes_)},
                    {"session_bytes", absl::StrCat(session_bytes)}});
}

size_t StatePool::lent() const {
  MutexLock lock(mutex_);
  return lent_;
}

uint64_t StatePool::lent_bytes() const {
  MutexLock lock(mutex_);
  return lent_bytes_;
}

void StatePool::Release(const StateLease& lease) {
  Clear(lease.bytes_, lease.used_bytes_);
  MutexLock lock(mutex_);
  free_.push_back(lease.slot_);
  --lent_;
  lent_bytes_ -= lease.charge_;
}

void StatePool::Clear(std::byte* slot, size_t used_bytes) const {
  const size_t fixed_end = std::min(used_bytes, size_.fixed_bytes);
  std::memset(slot, 0, fixed_end);
  if (used_bytes <= fixed_end) return;
  // Giving pages back makes them read as zeros and touches none of them. What
  // is left is the ends of the per-token rows that share a page with others.
  const auto address = reinterpret_cast<uintptr_t>(slot);
  const size_t page = PageBytes();
  const size_t first_page = RoundUp(address + fixed_end, page) - address;
  const size_t last_end = (address + size_.bytes) / page * page;
  if (last_end <= address + first_page ||
      madvise(slot + first_page, last_end - address - first_page,
              MADV_DONTNEED) != 0) {
    std::memset(slot + fixed_end, 0, used_bytes - fixed_end);
    return;
  }
  std::memset(slot + fixed_end, 0,
              std::min(used_bytes, first_page) - fixed_end);
  const size_t tail = last_end - address;
  if (used_bytes > tail) std::memset(slot + tail, 0, used_bytes - tail);
}

bool StatePool::AddSlab() {
  const size_t first_slot = slabs_.size() * slots_per_slab_;
  const size_t slots = std::min(slots_per_slab_, most_ - first_slot);
  Slab slab;
  const bool grows = size_.fixed_bytes < size_.bytes;
  // Kernels put what is as long as huge pages at their boundaries: without gaps
  // if it is so all along.
  slab.mapped_bytes =
      RoundUp(slots * size_.bytes, grows ? kHugePageBytes : PageBytes());
  slab.bytes = grows ? Map(slab.mapped_bytes) : MapAligned(slab.mapped_bytes);
  if (slab.bytes == nullptr) return false;
  // Both refused where the kernel has no huge pages: small ones serve as well.
  // Where it gives them to whoever does not say no, the first byte of 2 MB that
  // a session writes would cost it all of them.
  (void)madvise(slab.bytes, slab.mapped_bytes,
                grows ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
  slabs_.push_back(slab);
  for (size_t i = slots; i > 0; --i) free_.push_back(first_slot + i - 1);
  return true;
}

std::byte* StatePool::SlotBytes(size_t slot) const {
  const Slab& slab = slabs_[slot / slots_per_slab_];
  return slab.bytes + slot % slots_per_slab_ * size_.bytes;
}

}  // namespace steadystate
