#include "tests/testing/part_harness.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/status/statusor.h"

namespace steadystate {
namespace {

template <typename Value>
Value OrDie(absl::StatusOr<Value> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
    std::abort();
  }
  return *std::move(value);
}

}  // namespace

PartHarness::PartHarness(const CheckpointContents& contents,
                         size_t hidden_size) {
  WriteCheckpoint(contents, directory_.path());
  checkpoint_ = OrDie(Checkpoint::Open(directory_.path()));
  config_ = OrDie(
      Config::Parse(checkpoint_->config_text(), checkpoint_->config_path()));
  store_.emplace(*checkpoint_);
  linears_ = OrDie(LinearFactory::Create(DType::kF32));
  const WeightScope root(*store_, "");
  builder_.emplace(MixerBuilder{.layer = 0,
                                .layers = 1,
                                .hidden_size = hidden_size,
                                .norm_eps = 1e-6f,
                                .context_cap = 64,
                                .config = *config_,
                                .model = root,
                                .weights = root.Child("attn."),
                                .linears = *linears_,
                                .state = layout_builder_,
                                .scratch = scratch_});
}

void PartHarness::Start(size_t max_rows, size_t threads) {
  layout_ = std::move(layout_builder_).Build();
  state_ = AlignedFloats(layout_.bytes() / sizeof(float));
  pool_.emplace(threads);
  buffers_.emplace(builder_->hidden_size, scratch_, max_rows, *pool_);
}

std::byte* PartHarness::state() const {
  return reinterpret_cast<std::byte*>(state_.data());
}

Segment PartHarness::segment(uint64_t position, size_t rows, Pass pass) const {
  return {.state = state(),
          .position = position,
          .first_row = 0,
          .rows = rows,
          .pass = pass};
}

}  // namespace steadystate
