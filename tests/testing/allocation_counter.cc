#include "tests/testing/allocation_counter.h"

#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "absl/strings/match.h"

namespace {

std::atomic<uint64_t> allocations{0};

bool IsInOneDnn(const void* address) {
  Dl_info where{};
  return dladdr(address, &where) != 0 && where.dli_fname != nullptr &&
         absl::StrContains(where.dli_fname, "libdnnl");
}

void* TryAllocate(size_t bytes, size_t alignment, const void* caller) {
  if (!IsInOneDnn(caller)) allocations.fetch_add(1, std::memory_order_relaxed);
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  return std::aligned_alloc(alignment, rounded > 0 ? rounded : alignment);
}

void* Allocate(size_t bytes, size_t alignment, const void* caller) {
  void* memory = TryAllocate(bytes, alignment, caller);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) {
  return Allocate(bytes, alignof(std::max_align_t),
                  __builtin_return_address(0));
}
// The library's own calls the one above, a sanitizer's does not.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return TryAllocate(bytes, alignof(std::max_align_t),
                     __builtin_return_address(0));
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<size_t>(alignment),
                  __builtin_return_address(0));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace steadystate {

uint64_t CountAllocations() { return allocations.load(); }

}  // namespace steadystate
