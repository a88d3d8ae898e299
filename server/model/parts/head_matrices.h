#ifndef STEADYSTATE_SERVER_MODEL_PARTS_HEAD_MATRICES_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_HEAD_MATRICES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/state/rounding_noise.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/scratch_plan.h"
#include "server/model/state_layout.h"

namespace steadystate {

// The recurrent matrices of a layer's heads, in whatever type the model keeps
// them. A recurrence opens a head's matrix (OpenHeadMatrix), works on float32
// and closes it again: float32 matrices are worked on where they lie, others
// unpacked to scratch memory and packed again, rounded by noise that is a
// function of the position after the segment and of the matrix's place alone.
// Immutable; thread-safe.
class HeadMatrices {
 public:
  HeadMatrices() = default;

  // Declares the slot `name` of `shape`, [heads, ..., columns]; all dimensions
  // between are rows. Errors are those of StateLayoutBuilder::AddMatrices.
  static absl::StatusOr<HeadMatrices> Make(const MixerBuilder& builder,
                                           absl::string_view name,
                                           const std::vector<size_t>& shape);

  // Where one head's matrix is unpacked, and the noise by which it is rounded.
  struct Room {
    WorkerSlice<float> matrix{};  // f32[rows, columns]
    WorkerSlice<uint32_t> row_noise{}, column_noise{};
  };

  // What a matrix needs of a worker's scratch memory while it is open; nothing
  // if matrices are in float32.
  Room PlanRoom(WorkerScratchPlan& plan) const;

  // Floats of an unpacked matrix in a room.
  size_t room_floats() const {
    return dtype() == StateDType::kF32 ? 0 : rows_ * columns_;
  }

  // Where the head's matrix lies if it is in float32, else null: for kernels
  // that fetch it ahead.
  const float* Unpacked(const Segment& segment, size_t head) const;

  // For kernels that read and write what is packed:
  StateDType dtype() const { return slots_.dtype; }
  uint16_t* Bf16(const Segment& segment, size_t head) const;
  int16_t* Int16(const Segment& segment, size_t head) const;
  uint8_t* Exponents(const Segment& segment, size_t head) const;
  // By which the head is rounded after the segment. Lies in the room.
  RoundingNoise MakeNoise(const Segment& segment, size_t head, const Room& room,
                          const WorkerScratch& scratch) const;

 private:
  friend class OpenHeadMatrix;

  // Returns the head's matrix, f32[rows, columns], as it was before the
  // segment. It is in the session's state or in the room.
  float* Open(const Segment& segment, size_t head, const Room& room,
              const WorkerScratch& scratch) const;
  // Keeps the matrix that Open returned, as it is after the segment.
  void Close(const Segment& segment, size_t head, const Room& room,
             const WorkerScratch& scratch) const;

  MatrixSlots slots_;
  size_t rows_ = 0;
  size_t columns_ = 0;
};

// A head's matrix while a segment works on it: opened when this is made, kept
// when it goes.
class OpenHeadMatrix {
 public:
  // Matrices, segment and room outlive this.
  OpenHeadMatrix(const HeadMatrices& matrices, const Segment& segment,
                 size_t head, const HeadMatrices::Room& room,
                 const WorkerScratch& scratch)
      : matrices_(matrices),
        segment_(segment),
        head_(head),
        room_(room),
        scratch_(scratch),
        data_(matrices.Open(segment, head, room, scratch)) {}
  ~OpenHeadMatrix() { matrices_.Close(segment_, head_, room_, scratch_); }
  OpenHeadMatrix(const OpenHeadMatrix&) = delete;
  OpenHeadMatrix& operator=(const OpenHeadMatrix&) = delete;

  float* data() const { return data_; }  // f32[rows, columns]

 private:
  const HeadMatrices& matrices_;
  const Segment& segment_;
  const size_t head_;
  const HeadMatrices::Room& room_;
  const WorkerScratch scratch_;
  float* const data_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_HEAD_MATRICES_H_
