#include "server/model/parts/cached_attention.h"

#include "kernels/attention/softmax_attention.h"
#include "server/base/status_macros.h"

namespace steadystate {

absl::StatusOr<CachedAttention> CachedAttention::Make(
    const MixerBuilder& from, const CachedAttentionOptions& options) {
  CachedAttention made;
  made.options_ = options;
  STEADYSTATE_ASSIGN_OR_RETURN(
      made.cache_,
      KeyValueCache::Make(from, options.window, options.kv_heads, options.d));
  const size_t longest = options.window.value_or(from.context_cap);
  made.scratch_ =
      WorkerScratchPlan(from.scratch)
          .Add(std::max(std::min(made.group(), kHeadsAtOnce) * longest,
                        AttentionScratch(made.tokens_at_once() * made.group(),
                                         options.d)));
  return made;
}

void CachedAttention::Keep(const Segment& segment, size_t kv_head, size_t t,
                           const AttentionRows& rows) const {
  const size_t at =
      (segment.first_row + t) * rows.kv_stride + kv_head * options_.d;
  cache_.Keep(segment.state, kv_head, segment.position + t, rows.k + at,
              rows.v + at);
}

void CachedAttention::AttendEach(const Segment& segment, size_t kv_head,
                                 const AttentionRows& rows,
                                 float* scratch) const {
  const size_t head = kv_head * group();
  for (size_t t = 0; t < segment.rows; ++t) {
    const size_t row = segment.first_row + t;
    const size_t live = cache_.LiveAt(segment.position + t);
    Keep(segment, kv_head, t, rows);
    SoftmaxAttentionStep(
        cache_.Rows(segment.state, kv_head, live), group(), options_.scale,
        rows.q + row * rows.q_stride + head * options_.d, scratch,
        rows.o + (row * options_.heads + head) * options_.d);
  }
}

void CachedAttention::AttendTogether(const Segment& segment, size_t kv_head,
                                     size_t first, const AttentionRows& rows,
                                     float* scratch) const {
  const size_t d = options_.d;
  const size_t head = kv_head * group();
  const size_t tokens = std::min(tokens_at_once(), segment.rows - first);
  const size_t row = segment.first_row + first;
  const size_t position = segment.position + first;
  SoftmaxAttentionTokens(cache_.Rows(segment.state, kv_head, position + tokens),
                         {.tokens = tokens,
                          .heads = group(),
                          .position = position,
                          .scale = options_.scale,
                          .q = rows.q + row * rows.q_stride + head * d,
                          .q_stride = rows.q_stride,
                          .o = rows.o + (row * options_.heads + head) * d,
                          .o_stride = options_.heads * d},
                         scratch);
}

void CachedAttention::Run(std::span<const Segment> segments,
                          const AttentionRows& rows,
                          Workspace::Buffers& buffers) const {
  // Before anybody looks back at them.
  KeepAll(segments, rows, buffers);
  const size_t G = options_.kv_heads;
  size_t pieces = 1;
  for (const Segment& segment : segments) {
    if (!Together(segment)) continue;
    const size_t each = tokens_at_once();
    pieces = std::max(pieces, (segment.rows + each - 1) / each);
  }
  buffers.pool.ParallelFor(segments.size() * pieces * G, [&](size_t i,
                                                             size_t worker) {
    const Segment& segment = segments[i / G / pieces];
    // The last, which look back farthest, take longest.
    const size_t piece = pieces - 1 - i / G % pieces;
    float* const scratch = buffers.OfWorker(worker)[scratch_];
    if (!Together(segment)) {
      if (piece > 0) return;
      AttendEach(segment, i % G, rows, scratch);
    } else if (piece * tokens_at_once() < segment.rows) {
      AttendTogether(segment, i % G, piece * tokens_at_once(), rows, scratch);
    }
  });
}

void CachedAttention::KeepAll(std::span<const Segment> segments,
                              const AttentionRows& rows,
                              Workspace::Buffers& buffers) const {
  if (std::ranges::none_of(segments, [this](const Segment& segment) {
        return Together(segment);
      })) {
    return;
  }
  const size_t G = options_.kv_heads;
  buffers.pool.ParallelFor(segments.size() * G, [&](size_t i, size_t) {
    const Segment& segment = segments[i / G];
    if (!Together(segment)) return;
    for (size_t t = 0; t < segment.rows; ++t) Keep(segment, i % G, t, rows);
  });
}

}  // namespace steadystate
