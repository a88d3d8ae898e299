#ifndef STEADYSTATE_SERVER_MODEL_MODEL_H_
#define STEADYSTATE_SERVER_MODEL_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/dtype.h"
#include "kernels/linear/linear.h"
#include "kernels/thread_pool.h"
#include "server/model/mixer.h"
#include "server/model/state_layout.h"
#include "server/model/workspace.h"
#include "server/text/chat_template.h"
#include "server/text/tokenizer.h"

namespace steadystate {

// Caches are reserved up to the cap: today's models, of 2^18 positions, would
// take gigabytes for each session.
inline constexpr uint64_t kDefaultContextCap = 8192;

struct ModelOptions {
  // Directory with config.json and model.safetensors, or a sharded
  // model.safetensors.index.json.
  std::string path{};

  // Resource id in the API ("models/{id}"); empty takes the directory's name.
  std::string id{};

  // Absent ("auto"): bf16.
  std::optional<DType> weight_dtype{};

  // Version of transformers to read the checkpoint as, "4.57.6"; empty: that of
  // its config.json.
  std::string transformers_version{};

  // What sessions' recurrent matrices are kept in.
  StateDType state_dtype = StateDType::kF32;

  // What softmax layers keep tokens' keys and values in, kF32, kBf16 or kI8.
  // Absent ("auto"): bf16 unless weights are in f32, whose products have no
  // more digits.
  std::optional<DType> cache_dtype{};

  // Threads that convert and pack weights, the caller's included: at least one.
  // Another one hashes them meanwhile.
  size_t threads = 1;

  // Told now and then, by the thread that loads, how much of the weights it has
  // read: a number of `all`. Some may never be read.
  std::function<void(uint64_t read, uint64_t all)> progress{};

  // Cap of softmax layers in tokens, of sessions that ask for none; 0 takes
  // max_position_embeddings, but at most kDefaultContextCap.
  uint64_t context_cap = 0;
  // The largest that sessions may ask for. Absent: the same; 0:
  // max_position_embeddings, if that is more.
  std::optional<uint64_t> max_context_cap{};
};

// What GetModel and the metrics tell about a model.
struct ModelDescription {
  std::string id;           // "demo"
  std::string family;       // model_type, "gla"
  std::string fingerprint;  // 64 hex digits: SHA-256 of config.json and weights
  size_t vocab_size = 0;
  size_t hidden_size = 0;
  size_t layers = 0;
  size_t softmax_layers = 0;
  // Of each layer: the family's name, "softmax" or "softmax window".
  std::vector<std::string> layer_kinds;
  // The cap of sessions that ask for none; 0: they need none. The largest is
  // that of the layout.
  uint64_t context_cap = 0;
  std::string norm;  // of the residual stream: "rmsnorm" or "layernorm"
  float norm_eps = 0;
  bool tied_head = false;  // the head is the embedding table
  uint64_t parameters = 0;
  std::vector<int32_t> bos_tokens;  // empty: none
  std::vector<int32_t> eos_tokens;  // end generation unless told otherwise
  // Ids that the tokenizer has no token for: never drawn. Empty without one.
  std::vector<int32_t> ids_without_token;
  ChatTemplate chat;                  // its warnings are among those below
  LinearReport linear;                // weight dtype, ISA, tiles
  std::string kernel_target;          // "AVX3"
  std::vector<std::string> warnings;  // unknown config keys, unused tensors
  // What library versions read differently, and how it was read here.
  std::vector<std::string> readings;
};

// An immutable loaded model: maps (rows, states) to hidden vectors and logits.
// Thread-safe given distinct workspaces.
class Model {
 public:
  // Reads and checks a checkpoint, packs its weights. Errors name the file, the
  // key or tensor, the value found and what was expected:
  //   NOT_FOUND            no such directory or file
  //   INVALID_ARGUMENT     not a checkpoint; malformed, missing, misshaped or
  //                        truncated tensor; key out of range
  //   UNIMPLEMENTED        unknown model_type (the message lists those known),
  //                        or a key whose value would change results and is
  //                        not supported
  //   FAILED_PRECONDITION  bf16 demanded on a CPU without it, or a state dtype
  //                        that this family is not kept well enough in
  static absl::StatusOr<std::shared_ptr<const Model>> Load(
      const ModelOptions& options);
  ~Model();

  const ModelDescription& description() const;
  const StateLayout& state_layout() const;
  // Null if the checkpoint carries none that is known.
  const Tokenizer* tokenizer() const;

  // What a compute thread needs to run the model over batches of up to max_rows
  // rows. REQUIRES: max_rows >= 1. The model and the pool outlive the
  // workspace.
  Workspace MakeWorkspace(size_t max_rows, ThreadPool& pool) const;

  // Runs all layers over a batch and advances the states in place. Rows of
  // different RowClass go through the layers one class after the other, as
  // often as it changes.
  //   rows      the inputs of all segments; rows.size() <= workspace.max_rows()
  //   segments  cover each row exactly once, in order; distinct states
  //   hidden    f32[rows, D]  overwritten: after the final norm
  // REQUIRES: token ids in range; finite embeddings; no segment crosses the
  // context cap. The hidden vectors and the state of a session are a function
  // of its own inputs and of how they were cut into calls, bit for bit; other
  // cuts agree within rounding.
  void Forward(std::span<const InputRow> rows,
               std::span<const Segment> segments, float* hidden,
               Workspace& workspace) const;

  // The same in pieces, so that others need not wait for all of it: Embed, each
  // layer in turn, Finish. In between the workspace may serve passes of
  // other batches that have a residual stream of their own, but no other pass
  // that is half done. (It holds what layers leave for later ones.)
  //
  // A bidirectional pass, in which every token sees the whole sequence, goes
  // through a layer in pieces of at most workspace.max_rows() rows. The caller
  // keeps the residual stream of the whole sequence, f32[tokens, D], and a
  // zeroed state:
  //   Embed, every piece;
  //   for each layer: ForwardLayer with Pass::kAbsorb, every piece in order,
  //     then ForwardLayer with Pass::kRead, every piece;
  //   Finish, every piece.
  // A layer's sums over the sequence are made once, and read by every row: no
  // row ever meets another. How the sequence is cut shows in rounding only.

  // The first layer that has no bidirectional pass, because order matters to
  // it; absent if the model has one.
  std::optional<size_t> FirstCausalLayer() const;

  //   residual  f32[rows, D]  overwritten
  void Embed(std::span<const InputRow> rows, float* residual,
             Workspace& workspace) const;

  // REQUIRES: the segments are all of one RowClass; with passes kAbsorb or
  // kRead there is one, its first_row is 0, its position the piece's place in
  // the sequence, and !FirstCausalLayer().
  //   rows      of all segments
  //   residual  f32[rows, D]  advanced, but unchanged by kAbsorb
  void ForwardLayer(size_t layer, std::span<const Segment> segments,
                    size_t rows, float* residual, Workspace& workspace) const;

  //   residual  f32[rows, D]  in
  //   hidden    f32[rows, D]  overwritten: after the final norm
  void Finish(size_t rows, const float* residual, float* hidden,
              Workspace& workspace) const;

  // Logits of hidden vectors.
  //   hidden  f32[rows, D]           in; rows <= workspace.max_rows()
  //   logits  f32[rows, vocab_size]  overwritten
  void Head(size_t rows, const float* hidden, float* logits,
            Workspace& workspace) const;

 private:
  struct Contents;
  explicit Model(std::unique_ptr<Contents> contents);
  std::unique_ptr<Contents> contents_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_MODEL_H_
