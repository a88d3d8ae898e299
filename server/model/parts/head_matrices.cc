#include "server/model/parts/head_matrices.h"

#include <functional>
#include <numeric>

#include "kernels/state/packed_matrix.h"
#include "server/base/status_macros.h"

namespace steadystate {

absl::StatusOr<HeadMatrices> HeadMatrices::Make(
    const MixerBuilder& builder, absl::string_view name,
    const std::vector<size_t>& shape) {
  HeadMatrices made;
  STEADYSTATE_ASSIGN_OR_RETURN(
      made.slots_, builder.state.AddMatrices(builder.layer, name, shape));
  made.columns_ = shape.back();
  made.rows_ = std::accumulate(shape.begin() + 1, shape.end() - 1, size_t{1},
                               std::multiplies<>());
  return made;
}

HeadMatrices::Room HeadMatrices::PlanRoom(WorkerScratchPlan& plan) const {
  if (dtype() == StateDType::kF32) return {};
  return {.matrix = plan.Add(rows_ * columns_),
          .row_noise = plan.Add<uint32_t>(rows_),
          .column_noise = plan.Add<uint32_t>(columns_)};
}

float* HeadMatrices::Open(const Segment& segment, size_t head, const Room& room,
                          const WorkerScratch& scratch) const {
  const size_t size = rows_ * columns_;
  float* const matrix = scratch[room.matrix];
  switch (slots_.dtype) {
    case StateDType::kF32:
      return slots_.f32.In(segment.state) + head * size;
    case StateDType::kBf16:
      UnpackBf16(size, Bf16(segment, head), matrix);
      break;
    case StateDType::kInt16:
      UnpackInt16(rows_, columns_, Int16(segment, head),
                  Exponents(segment, head), matrix);
      break;
  }
  return matrix;
}

void HeadMatrices::Close(const Segment& segment, size_t head, const Room& room,
                         const WorkerScratch& scratch) const {
  const float* const matrix = scratch[room.matrix];
  switch (slots_.dtype) {
    case StateDType::kF32:
      break;
    case StateDType::kBf16:
      PackBf16(rows_, columns_, matrix, MakeNoise(segment, head, room, scratch),
               Bf16(segment, head));
      break;
    case StateDType::kInt16:
      PackInt16(rows_, columns_, matrix,
                MakeNoise(segment, head, room, scratch), Int16(segment, head),
                Exponents(segment, head));
      break;
  }
}

const float* HeadMatrices::Unpacked(const Segment& segment, size_t head) const {
  if (slots_.dtype != StateDType::kF32) return nullptr;
  return slots_.f32.In(segment.state) + head * rows_ * columns_;
}

uint16_t* HeadMatrices::Bf16(const Segment& segment, size_t head) const {
  return slots_.bf16.In(segment.state) + head * rows_ * columns_;
}

int16_t* HeadMatrices::Int16(const Segment& segment, size_t head) const {
  return slots_.int16.In(segment.state) + head * rows_ * columns_;
}

uint8_t* HeadMatrices::Exponents(const Segment& segment, size_t head) const {
  return slots_.exponents.In(segment.state) +
         head * rows_ * Int16Groups(columns_);
}

RoundingNoise HeadMatrices::MakeNoise(const Segment& segment, size_t head,
                                      const Room& room,
                                      const WorkerScratch& scratch) const {
  const bool bf16 = slots_.dtype == StateDType::kBf16;
  const auto* const at =
      bf16 ? reinterpret_cast<const std::byte*>(Bf16(segment, head))
           : reinterpret_cast<const std::byte*>(Int16(segment, head));
  const RoundingPlace place = {
      .position = segment.position + segment.rows,
      .offset = static_cast<uint64_t>(at - segment.state)};
  return MakeRoundingNoise(place, bf16 ? kBf16NoiseBits : kInt16NoiseBits,
                           rows_, columns_, scratch[room.row_noise],
                           scratch[room.column_noise]);
}

}  // namespace steadystate
