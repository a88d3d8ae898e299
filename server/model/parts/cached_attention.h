#ifndef STEADYSTATE_SERVER_MODEL_PARTS_CACHED_ATTENTION_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_CACHED_ATTENTION_H_

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/attention/softmax_attention.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/parts/key_value_cache.h"
#include "server/model/scratch_plan.h"
#include "server/model/workspace.h"

namespace steadystate {

struct CachedAttentionOptions {
  size_t heads = 0;     // H, of queries
  size_t kv_heads = 0;  // G, divides H
  size_t d = 0;         // width of a head
  float scale = 1;      // of scores
  // How many of the latest tokens are seen, the own one included; absent: all.
  std::optional<size_t> window{};
  // Keys are values, too, and kept once.
  bool values_are_keys = false;
};

// What the rows of a batch ask of a layer's cache, and what they add to it.
struct AttentionRows {
  const float* q = nullptr;  // f32[rows, H, d; q_stride]
  size_t q_stride = 0;
  const float* k = nullptr;  // f32[rows, G, d; kv_stride]
  const float* v = nullptr;  // likewise; unused where values are keys
  size_t kv_stride = 0;
  float* o = nullptr;  // f32[rows, H, d]  out
};

// Causal softmax attention over the keys and values that a layer keeps,
//   o_h = sum_j softmax_j(scale q_h . k_j) v_j   over the tokens j seen,
// where query head h reads key head h / (H / G). It has the layer's cache.
// What a token gets depends on its session alone, bit for bit. Immutable;
// thread-safe given distinct workspaces.
class CachedAttention {
 public:
  CachedAttention() = default;

  // Declares the cache and the scratch memory. Errors are those of
  // StateLayoutBuilder.
  static absl::StatusOr<CachedAttention> Make(
      const MixerBuilder& from, const CachedAttentionOptions& options);

  // Keeps what the segments have, and answers them.
  void Run(std::span<const Segment> segments, const AttentionRows& rows,
           Workspace::Buffers& buffers) const;

 private:
  // Tokens of a segment from which on matrix products are faster.
  static constexpr size_t kWorthProducts = 8;
  // Queries that are columns of one product.
  static constexpr size_t kQueriesAtOnce = 64;

  // Query heads that share a key head.
  size_t group() const { return options_.heads / options_.kv_heads; }
  // So many tokens of a segment are one piece of work for each key head.
  size_t tokens_at_once() const {
    return std::max(kQueriesAtOnce / group(), size_t{1});
  }
  // Query heads that share a key head fall into so many parts, what a token by
  // itself can be shared out by. What a ring keeps comes and goes with each
  // token: all that share it see it at once.
  size_t parts() const {
    return cache_.is_ring() ? 1 : (group() + kHeadsAtOnce - 1) / kHeadsAtOnce;
  }
  size_t all_parts() const { return options_.kv_heads * parts(); }
  // True if the segment's tokens are computed together: there are enough of
  // them, and no key of theirs takes the place of one that is still needed.
  bool Together(const Segment& segment) const {
    return !cache_.is_ring() && segment.rows >= kWorthProducts;
  }
  // Rows of the cache that the segment's tokens look back at, all in all.
  double LooksBack(const Segment& segment) const;
  // Parts that are one piece of work. A thread takes as many as its share of
  // the batch allows: the rows of all heads lie together, and are read together
  // at a multiple of the speed.
  //   share  of one thread, in rows that parts look back at
  size_t PartsAtOnce(const Segment& segment, double share) const;
  // Pieces of work of a segment.
  size_t Pieces(const Segment& segment, double share) const;

  // Puts the keys and values of one row of the batch into the cache.
  void Keep(const Segment& segment, size_t kv_head, size_t t,
            const AttentionRows& rows) const;
  // Keeps what several pieces of work need: all but what is in rings.
  void KeepAll(std::span<const Segment> segments, const AttentionRows& rows,
               Workspace::Buffers& buffers) const;
  // One segment, token after token: parts `first` and up, `count` of them.
  void AttendEach(const Segment& segment, size_t first, size_t count,
                  const AttentionRows& rows, float* scratch) const;
  // Row t of it: `kv_heads` key heads from `kv_head` on, of each of which
  // `group` queries from `first` on.
  struct Queries {
    size_t kv_head, kv_heads;
    size_t first, group;
  };
  void Attend(const Segment& segment, size_t t, const Queries& queries,
              const AttentionRows& rows, float* scratch) const;
  // One segment and key head: some tokens from `first` on, whose keys are kept
  // already.
  void AttendTogether(const Segment& segment, size_t kv_head, size_t first,
                      const AttentionRows& rows, float* scratch) const;

  CachedAttentionOptions options_;
  KeyValueCache cache_;
  WorkerSlice<float> scratch_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_CACHED_ATTENTION_H_
