// Goal: a warm model computes without allocating. Method: this file counts
// every operator new of the program, but for those that oneDNN makes inside of
// its own calls and that nobody can spare it.
#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "kernels/thread_pool.h"
#include "server/model/aligned_floats.h"
#include "server/model/model.h"
#include "server/model/sampler.h"
#include "tests/testing/tiny_model.h"

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
namespace {

constexpr size_t kSessions = 5;
constexpr size_t kRowsEach = 3;

// Runs a batch of all sessions; each call takes the next positions.
class Batch {
 public:
  explicit Batch(const Model& model)
      : model_(model),
        pool_(1),
        workspace_(model, kSessions * kRowsEach, pool_),
        hidden_(rows_.size() * model.description().hidden_size),
        logits_(rows_.size() * model.description().vocab_size) {
    for (size_t i = 0; i < kSessions; ++i) {
      states_.emplace_back(model.state_layout().bytes() / sizeof(float));
      segments_.push_back(
          {.state = reinterpret_cast<std::byte*>(states_[i].data()),
           .position = 0,
           .first_row = i * kRowsEach,
           .rows = kRowsEach});
    }
  }

  void Run() {
    model_.Forward(rows_, segments_, hidden_.data(), workspace_);
    model_.Head(rows_.size(), hidden_.data(), logits_.data(), workspace_);
    workspace_.TakePhases();
    for (Segment& segment : segments_) segment.position += kRowsEach;
  }

  std::span<const float> logits() const {
    return {logits_.data(), model_.description().vocab_size};
  }

 private:
  const Model& model_;
  ThreadPool pool_;
  Workspace workspace_;
  std::vector<AlignedFloats> states_;
  std::vector<Segment> segments_;
  std::vector<InputRow> rows_{kSessions * kRowsEach, InputRow{.token = 3}};
  std::vector<float> hidden_;
  std::vector<float> logits_;
};

TEST(AllocationTest, AWarmForwardPassAllocatesNothing) {
  const TinyModel tiny({.layers = 3, .short_conv = true, .softmax_layer = 1});
  const auto model = tiny.Load();
  Batch batch(*model);
  batch.Run();
  const uint64_t before = allocations.load();
  batch.Run();
  batch.Run();
  EXPECT_EQ(allocations.load() - before, 0u);
}

TEST(AllocationTest, AWarmSamplerAllocatesNothing) {
  const TinyModel tiny;
  const auto model = tiny.Load();
  Batch batch(*model);
  batch.Run();
  SamplingParams params;
  params.logit_bias = {{1, 1.0f}};
  params.presence_penalty = 1;
  params.top_k = 40;
  params.top_p = 0.9;
  params.min_p = 0.01;
  const std::vector<int32_t> recent = {1, 2, 3};
  Sampler sampler(model->description().vocab_size);
  sampler.Sample(batch.logits(), params, recent, 0);
  const uint64_t before = allocations.load();
  sampler.Sample(batch.logits(), params, recent, 1);
  EXPECT_EQ(allocations.load() - before, 0u);
}

}  // namespace
}  // namespace steadystate
