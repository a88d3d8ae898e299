#ifndef STEADYSTATE_SERVER_SESSION_SESSION_STATE_H_
#define STEADYSTATE_SERVER_SESSION_SESSION_STATE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/model/state_layout.h"
#include "server/session/session_memory.h"
#include "server/session/state_pool.h"

namespace steadystate {

// Most inputs that a session remembers (SessionLayout::history).
inline constexpr size_t kMaxHistory = size_t{1} << 20;

// Most states that a session keeps beside its present one
// (SessionLayout::snapshots), and how many of the inputs that it remembers lie
// between two of them at least.
inline constexpr size_t kMaxSnapshots = 64;
inline constexpr size_t kMinSnapshotDistance = 16;

// Where the parts of one session lie in its slot, and what a session costs.
// Computed once per model. Immutable. The StateLayout outlives it.
class SessionLayout {
 public:
  // `history`: how many of its latest inputs a session remembers; `snapshots`:
  // how many states that it had it keeps in memory, beside the present one;
  // `context_cap`: that of sessions that ask for none, 0 for the largest.
  SessionLayout(const StateLayout& state, size_t hidden_size, size_t history,
                size_t snapshots = 0, uint64_t context_cap = 0);

  const StateLayout& state() const { return state_; }
  size_t hidden_size() const { return hidden_size_; }
  size_t history() const { return history_; }
  size_t snapshots() const { return snapshots_; }
  SlotSize slot() const { return slot_; }

  // Everything that a session of this cap takes, its record included: what the
  // budget is charged, exactly. Of what does not grow the cap does not matter.
  uint64_t charge_bytes(uint64_t cap) const;
  uint64_t charge_bytes() const { return charge_bytes(context_cap_); }
  // What of that each of its slots is charged.
  uint64_t lease_bytes(uint64_t cap) const {
    return charge_bytes(cap) / (1 + snapshots_);
  }

  // How much of the slot a session at `position` >= 1 has written at most.
  size_t used_bytes(uint64_t position) const {
    return std::max(slot_.fixed_bytes,
                    state_offset_ + state_.used_bytes(position));
  }

  // The position beyond which a session cannot advance that asks for none, and
  // the largest that one may ask for; 0 for none.
  uint64_t context_cap() const { return context_cap_; }
  uint64_t max_context_cap() const { return state_.context_cap(); }

 private:
  friend class SessionState;
  const StateLayout& state_;
  size_t hidden_size_;
  size_t history_;
  size_t snapshots_;
  uint64_t context_cap_;
  // A slot is: pending hidden f32[D] | recent tokens | records of requests |
  // history | the model's state, each 64-byte aligned. The state comes last
  // because it may grow.
  size_t recent_offset_;
  size_t records_offset_;
  size_t history_offset_;
  size_t state_offset_;
  SlotSize slot_;
};

// What a session is beside the model's state, in a form of its own. Lent in
// part.
struct SessionContents {
  uint64_t position = 0;
  std::vector<float> pending_hidden;  // f32[D]; empty: none
  std::vector<int32_t> recent;        // oldest first; at most kMaxPenaltyWindow
  std::string unfinished_text;
  std::vector<int32_t> history;        // the latest inputs, up to `position`
  std::vector<bool> cuts;              // of each, whether a piece begins there
  std::vector<bool> drawn;             // of each, or none; see TokenHistory
  std::vector<RequestRecord> records;  // oldest first
  bool imported = false;               // SessionState::imported
};

// Everything that decides a session's next byte. Belongs to whoever advances
// the session. Thread-compatible. The layout outlives it.
class SessionState {
 public:
  // At position 0. `lease` is a fresh slot of a pool of layout.slot(), or none
  // yet.
  explicit SessionState(const SessionLayout& layout, StateLease lease = {})
      : layout_(layout),
        lease_(std::move(lease)),
        context_cap_(layout.context_cap()) {}
  SessionState(const SessionState&) = delete;
  SessionState& operator=(const SessionState&) = delete;

  // Whether it has a slot with its bytes, without which it can neither be
  // advanced nor looked at, but for its position.
  bool in_memory() const {
    return lease_.bytes() != nullptr && origin_ == nullptr && !stored_;
  }
  bool has_slot() const { return lease_.bytes() != nullptr; }
  // Whether a slot goes back when it ends.
  bool frees_slot() const { return has_slot() || origin_.use_count() == 1; }
  // Gives it a fresh slot of a pool of layout.slot(). REQUIRES: it has none.
  void SetSlot(StateLease lease) { lease_ = std::move(lease); }

  // Makes it all that `other` is, which nobody advances meanwhile. REQUIRES:
  // this one has a fresh slot, and the other has one with its bytes, or is at
  // position 0.
  void CopyFrom(const SessionState& other);

  // Makes it stand for a copy of `origin`, which nobody ever advances and other
  // states may stand for as well: a copy that is made when memory is wanted, by
  // TakeOver, or by SetSlot, CopyOrigin and DropOrigin. REQUIRES: this one has
  // no slot and is at position 0; the origin is in memory.
  void Follow(std::shared_ptr<SessionState> origin);
  // True if it stands for a copy, and no other state does for the same: then it
  // has the origin's slot from now on, unless there is no room for its charge.
  bool TakeOver();
  // REQUIRES: it has a slot.
  void CopyOrigin();
  std::shared_ptr<SessionState> DropOrigin() { return std::move(origin_); }

  // Back to position 0, in the slot that it has. REQUIRES: it is in memory.
  void Reset();

  // Puts all but the model's state in place, of which the caller may write what
  // a session at that position has. REQUIRES: this one has a fresh slot, or
  // none where the position is 0; the contents are within the layout's bounds.
  void Restore(const SessionContents& contents);
  // The same in its own form. REQUIRES: it is in memory, or at position 0.
  SessionContents contents() const;

  // Its bytes are in a store from now on, and its slot is the caller's, to be
  // cleared. It is at position 0 until it is restored.
  StateLease Leave();
  // It has been restored.
  void Arrive() { stored_ = false; }
  bool stored() const { return stored_; }
  // What it stands for a copy of, or null.
  const SessionState* origin() const { return origin_.get(); }

  // The model's state, laid out by its StateLayout.
  std::byte* model_state() const;

  uint64_t position() const { return position_; }
  // The position beyond which it cannot advance, or 0 for none; SessionLayout's
  // unless it was set, to at most the largest.
  uint64_t context_cap() const { return context_cap_; }
  void set_context_cap(uint64_t cap) { context_cap_ = cap; }
  // What its slot is charged.
  uint64_t lease_bytes() const { return layout_.lease_bytes(context_cap_); }
  // Charges its slot, if it has one, for another cap than before. False without
  // room for that.
  bool Recharge() { return !has_slot() || lease_.Recharge(lease_bytes()); }

  // The hidden vector f32[D] after the last token, from which the logits of the
  // next can be computed again, bit for bit. Null if there is none: nothing has
  // been absorbed, or what came out was not finite.
  const float* pending_hidden() const;

  // Copies the latest tokens, oldest first, to `to`, as many as it takes and
  // there are; returns how many. Embeddings do not count as tokens.
  //   to  i32[at most kMaxPenaltyWindow]  overwritten as far as returned
  size_t CopyRecent(std::span<int32_t> to) const;

  // The requests that the session has absorbed lately. Belong to the slot.
  RequestRecords records() const;

  // How many of its inputs are remembered at most.
  size_t history_capacity() const { return layout_.history(); }
  // Its inputs from this position on are remembered.
  uint64_t history_begin() const;
  // Inputs [from, from + to.size()). REQUIRES: from >= history_begin(), and the
  // last of them is absorbed.
  //   to  i32  ids, or TokenHistory::kEmbedding
  void CopyHistory(uint64_t from, std::span<int32_t> to) const;
  // The latest inputs. REQUIRES: it is in memory; nothing before
  // history_begin() is asked for.
  TokenHistory history() const;
  // From this position on all inputs are remembered, and can be absorbed again:
  // none is an embedding.
  uint64_t repeatable_from() const {
    return std::max(history_begin(), after_embedding_);
  }

  // It was brought by a client, or is a copy of such a state, or goes on from
  // one: whether it is what its history leads to, nobody knows.
  bool imported() const { return imported_; }
  void NoteImported() { imported_ = position_ > 0; }

  // The first bytes of a character that the last generated tokens left
  // unfinished.
  const std::string& unfinished_text() const { return unfinished_text_; }
  void set_unfinished_text(absl::string_view bytes) {
    unfinished_text_.assign(bytes.data(), bytes.size());
  }

  // Call before the model advances the state by `rows`: says what it may write.
  void WillAbsorb(size_t rows);

  // The model has advanced the state by `rows`. Drops the unfinished text.
  //   tokens       their ids; empty if they were embeddings
  //   last_hidden  f32[D] after the last row; null if it is not finite
  //   drawn        they were drawn from the session's logits
  void Absorbed(size_t rows, std::span<const int32_t> tokens,
                const float* last_hidden, bool drawn = false);

  // The logits of the pending hidden vector turned out not to be finite.
  void DropPending() { has_pending_ = false; }

 private:
  int32_t* recent() const;
  void CopyFields(const SessionState& other);
  void ResetFields();

  const SessionLayout& layout_;
  StateLease lease_;
  uint64_t context_cap_;
  std::shared_ptr<SessionState> origin_;  // null if it stands for itself
  bool stored_ = false;                   // its bytes are in a store
  uint64_t position_ = 0;
  uint64_t history_floor_ = 0;    // what came before is not in the slot
  uint64_t after_embedding_ = 0;  // after the last one; 0: there was none
  uint64_t recent_count_ = 0;     // tokens ever noted; a ring holds the latest
  bool has_pending_ = false;
  bool imported_ = false;
  std::string unfinished_text_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_SESSION_STATE_H_
