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
  made.scratch_ =
      WorkerScratchPlan(from.scratch)
          .Add(std::max(StepScratch(options.heads),
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

double CachedAttention::LooksBack(const Segment& segment) const {
  const size_t last = segment.position + segment.rows - 1;
  return static_cast<double>(segment.rows) *
         static_cast<double>(cache_.LiveAt(last));
}

size_t CachedAttention::PartsAtOnce(const Segment& segment,
                                    double share) const {
  const double fit = share / LooksBack(segment);
  if (fit >= static_cast<double>(all_parts())) return all_parts();
  const size_t most = std::max(static_cast<size_t>(fit), size_t{1});
  // Whole key heads, where there is one.
  return most < parts() ? most : most / parts() * parts();
}

size_t CachedAttention::Pieces(const Segment& segment, double share) const {
  const auto pieces = [](size_t all, size_t each) {
    return (all + each - 1) / each;
  };
  if (Together(segment)) {
    return options_.kv_heads * pieces(segment.rows, tokens_at_once());
  }
  return pieces(all_parts(), PartsAtOnce(segment, share));
}

void CachedAttention::AttendEach(const Segment& segment, size_t first,
                                 size_t count, const AttentionRows& rows,
                                 float* scratch) const {
  const size_t end = std::min(first + count, all_parts());
  for (size_t t = 0; t < segment.rows; ++t) {
    for (size_t part = first; part < end;) {
      const size_t kv_head = part / parts();
      const size_t left = end - part;
      Queries queries = {kv_head, left / parts(), 0, group()};
      size_t taken = queries.kv_heads * parts();
      if (part % parts() != 0 || left < parts()) {
        taken = std::min(left, parts() - part % parts());
        queries.kv_heads = 1;
        queries.first = part % parts() * kHeadsAtOnce;
        queries.group = std::min(taken * kHeadsAtOnce, group() - queries.first);
      }
      Attend(segment, t, queries, rows, scratch);
      part += taken;
    }
  }
}

void CachedAttention::Attend(const Segment& segment, size_t t,
                             const Queries& queries, const AttentionRows& rows,
                             float* scratch) const {
  const size_t d = options_.d;
  const size_t row = segment.first_row + t;
  const size_t head = queries.kv_head * group() + queries.first;
  const size_t live = cache_.LiveAt(segment.position + t);
  if (cache_.is_ring()) {
    for (size_t g = 0; g < queries.kv_heads; ++g) {
      Keep(segment, queries.kv_head + g, t, rows);
    }
  }
  SoftmaxAttentionStep(cache_.Rows(segment.state, queries.kv_head, live),
                       {.kv_heads = queries.kv_heads,
                        .group = queries.group,
                        .scale = options_.scale,
                        .q = rows.q + row * rows.q_stride + head * d,
                        .o = rows.o + (row * options_.heads + head) * d},
                       scratch);
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
  if (!cache_.is_ring()) KeepAll(segments, rows, buffers);
  double all = 0;
  for (const Segment& segment : segments) all += LooksBack(segment);
  const double share = all * static_cast<double>(all_parts()) /
                       static_cast<double>(buffers.pool.size());
  size_t pieces = 1;
  for (const Segment& segment : segments) {
    pieces = std::max(pieces, Pieces(segment, share));
  }
  const size_t G = options_.kv_heads;
  buffers.pool.ParallelFor(
      segments.size() * pieces, [&](size_t i, size_t worker) {
        const Segment& segment = segments[i / pieces];
        // The last, which look back farthest, take longest.
        const size_t piece = pieces - 1 - i % pieces;
        if (piece >= Pieces(segment, share)) return;
        float* const scratch = buffers.OfWorker(worker)[scratch_];
        if (Together(segment)) {
          AttendTogether(segment, piece % G, piece / G * tokens_at_once(), rows,
                         scratch);
          return;
        }
        const size_t each = PartsAtOnce(segment, share);
        AttendEach(segment, piece * each, each, rows, scratch);
      });
}

void CachedAttention::KeepAll(std::span<const Segment> segments,
                              const AttentionRows& rows,
                              Workspace::Buffers& buffers) const {
  size_t longest = 0;
  for (const Segment& segment : segments) {
    longest = std::max(longest, segment.rows);
  }
  const size_t G = options_.kv_heads;
  buffers.ForRows(segments.size() * G, 2 * options_.d * longest,
                  [&](size_t i, size_t) {
                    const Segment& segment = segments[i / G];
                    for (size_t t = 0; t < segment.rows; ++t) {
                      Keep(segment, i % G, t, rows);
                    }
                  });
}

}  // namespace steadystate
