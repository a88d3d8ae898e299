#include "server/model/parts/cached_attention.h"

#include "server/base/status_macros.h"

namespace steadystate {

absl::StatusOr<CachedAttention> CachedAttention::Make(
    const MixerBuilder& from, const CachedAttentionOptions& options) {
  CachedAttention made;
  made.options_ = options;
  STEADYSTATE_ASSIGN_OR_RETURN(
      made.cache_, KeyValueCache::Make(from, options.window, options.kv_heads,
                                       options.d, options.values_are_keys));
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
              options_.values_are_keys ? nullptr : rows.v + at);
}

size_t CachedAttention::Pieces(const Segment& segment) const {
  const size_t all = Together(segment) ? segment.rows : group();
  const size_t each = Together(segment) ? tokens_at_once() : heads_at_once();
  return (all + each - 1) / each;
}

void CachedAttention::AttendEach(const Segment& segment, size_t kv_head,
                                 size_t first, const AttentionRows& rows,
                                 float* scratch) const {
  const size_t d = options_.d;
  const size_t head = kv_head * group() + first;
  const size_t heads = std::min(heads_at_once(), group() - first);
  for (size_t t = 0; t < segment.rows; ++t) {
    const size_t row = segment.first_row + t;
    const size_t live = cache_.LiveAt(segment.position + t);
    if (!KeepsBefore(segment)) Keep(segment, kv_head, t, rows);
    SoftmaxAttentionStep(cache_.Rows(segment.state, kv_head, live), heads,
                         options_.scale,
                         rows.q + row * rows.q_stride + head * d, scratch,
                         rows.o + (row * options_.heads + head) * d);
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
    pieces = std::max(pieces, Pieces(segment));
  }
  buffers.pool.ParallelFor(segments.size() * pieces * G, [&](size_t i,
                                                             size_t worker) {
    const Segment& segment = segments[i / G / pieces];
    // The last, which look back farthest, take longest.
    const size_t piece = pieces - 1 - i / G % pieces;
    if (piece >= Pieces(segment)) return;
    float* const scratch = buffers.OfWorker(worker)[scratch_];
    if (Together(segment)) {
      AttendTogether(segment, i % G, piece * tokens_at_once(), rows, scratch);
    } else {
      AttendEach(segment, i % G, piece * heads_at_once(), rows, scratch);
    }
  });
}

void CachedAttention::KeepAll(std::span<const Segment> segments,
                              const AttentionRows& rows,
                              Workspace::Buffers& buffers) const {
  size_t longest = 0;
  for (const Segment& segment : segments) {
    if (KeepsBefore(segment)) longest = std::max(longest, segment.rows);
  }
  if (longest == 0) return;
  const size_t G = options_.kv_heads;
  buffers.ForRows(segments.size() * G, 2 * options_.d * longest,
                  [&](size_t i, size_t) {
                    const Segment& segment = segments[i / G];
                    if (!KeepsBefore(segment)) return;
                    for (size_t t = 0; t < segment.rows; ++t) {
                      Keep(segment, i % G, t, rows);
                    }
                  });
}

}  // namespace steadystate
