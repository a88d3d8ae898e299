#include "server/session/session_state.h"

#include <algorithm>
#include <cstring>

#include "server/model/sampler.h"

namespace steadystate {
namespace {

constexpr size_t kAlignment = 64;

// What a session takes beside its slot, at most: id, labels at their bounds,
// its places in tables and queues.
constexpr size_t kBesideSlotBytes = 4096;

size_t Align(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

SessionLayout::SessionLayout(const StateLayout& state, size_t hidden_size,
                             size_t history, size_t snapshots,
                             uint64_t context_cap)
    : state_(state),
      hidden_size_(hidden_size),
      history_(history),
      snapshots_(snapshots),
      context_cap_(context_cap == 0
                       ? state.context_cap()
                       : std::min(context_cap, state.context_cap())),
      recent_offset_(Align(hidden_size * sizeof(float))),
      records_offset_(recent_offset_ +
                      Align(kMaxPenaltyWindow * sizeof(int32_t))),
      history_offset_(records_offset_ + Align(RequestRecords::kBytes)),
      state_offset_(history_offset_ + Align(TokenHistory::Bytes(history))),
      slot_{.bytes = state_offset_ + Align(state.bytes()),
            .fixed_bytes = state_offset_ + state.fixed_bytes()} {
  // Without per-token slots no padding is left to count among them.
  if (state.fixed_bytes() == state.bytes()) slot_.fixed_bytes = slot_.bytes;
}

uint64_t SessionLayout::charge_bytes(uint64_t cap) const {
  const size_t slot = state_offset_ + Align(state_.bytes_at(cap));
  return (1 + snapshots_) * slot + kBesideSlotBytes;
}

void SessionState::CopyFrom(const SessionState& other) {
  CopyFields(other);
  if (position_ == 0) return;
  const size_t used = layout_.used_bytes(position_);
  lease_.MarkUsed(used);
  std::memcpy(lease_.bytes(), other.lease_.bytes(), used);
}

void SessionState::CopyFields(const SessionState& other) {
  position_ = other.position_;
  history_floor_ = other.history_floor_;
  after_embedding_ = other.after_embedding_;
  recent_count_ = other.recent_count_;
  has_pending_ = other.has_pending_;
  imported_ = other.imported_;
  unfinished_text_ = other.unfinished_text_;
}

void SessionState::Follow(std::shared_ptr<SessionState> origin) {
  CopyFields(*origin);
  origin_ = std::move(origin);
}

void SessionState::Reset() {
  lease_.Clear();
  ResetFields();
}

void SessionState::ResetFields() {
  position_ = 0;
  history_floor_ = 0;
  after_embedding_ = 0;
  recent_count_ = 0;
  has_pending_ = false;
  imported_ = false;
  unfinished_text_.clear();
}

StateLease SessionState::Leave() {
  ResetFields();
  stored_ = true;
  return std::move(lease_);
}

bool SessionState::TakeOver() {
  if (origin_ == nullptr || origin_.use_count() > 1 ||
      !origin_->lease_.Recharge(lease_bytes())) {
    return false;
  }
  lease_ = std::move(origin_->lease_);
  origin_.reset();
  return true;
}

void SessionState::CopyOrigin() {
  if (origin_ != nullptr) CopyFrom(*origin_);
}

void SessionState::Restore(const SessionContents& contents) {
  if (contents.position == 0) return;
  lease_.MarkUsed(layout_.used_bytes(contents.position));
  position_ = contents.position;
  history_floor_ = position_ - contents.history.size();
  history().Restore(history_floor_, contents.history, contents.cuts,
                    contents.drawn);
  after_embedding_ = 0;
  for (size_t i = 0; i < contents.history.size(); ++i) {
    if (contents.history[i] == TokenHistory::kEmbedding) {
      after_embedding_ = history_floor_ + i + 1;
    }
  }
  recent_count_ = contents.recent.size();
  std::copy(contents.recent.begin(), contents.recent.end(), recent());
  RequestRecords kept = records();
  for (const RequestRecord& record : contents.records) kept.Put(record);
  has_pending_ = !contents.pending_hidden.empty();
  if (has_pending_) {
    std::memcpy(lease_.bytes(), contents.pending_hidden.data(),
                layout_.hidden_size() * sizeof(float));
  }
  imported_ = contents.imported;
  unfinished_text_ = contents.unfinished_text;
}

SessionContents SessionState::contents() const {
  SessionContents contents;
  contents.position = position_;
  if (position_ == 0) return contents;
  if (const float* const pending = pending_hidden()) {
    contents.pending_hidden.assign(pending, pending + layout_.hidden_size());
  }
  contents.recent.resize(kMaxPenaltyWindow);
  contents.recent.resize(CopyRecent(contents.recent));
  contents.unfinished_text = unfinished_text_;
  const uint64_t from = history_begin();
  contents.history.resize(static_cast<size_t>(position_ - from));
  CopyHistory(from, contents.history);
  const TokenHistory kept = history();
  for (uint64_t p = from; p < position_; ++p) {
    contents.cuts.push_back(kept.BeginsPiece(p));
    contents.drawn.push_back(kept.IsDrawn(p));
  }
  contents.records = records().All();
  return contents;
}

std::byte* SessionState::model_state() const {
  return lease_.bytes() + layout_.state_offset_;
}

const float* SessionState::pending_hidden() const {
  if (!has_pending_) return nullptr;
  return reinterpret_cast<const float*>(lease_.bytes());
}

int32_t* SessionState::recent() const {
  return reinterpret_cast<int32_t*>(lease_.bytes() + layout_.recent_offset_);
}

RequestRecords SessionState::records() const {
  return RequestRecords(lease_.bytes() + layout_.records_offset_);
}

TokenHistory SessionState::history() const {
  return {lease_.bytes() + layout_.history_offset_, layout_.history_};
}

uint64_t SessionState::history_begin() const {
  return std::max(history().Begin(position_), history_floor_);
}

void SessionState::CopyHistory(uint64_t from, std::span<int32_t> to) const {
  history().Copy(from, to);
}

size_t SessionState::CopyRecent(std::span<int32_t> to) const {
  const auto count =
      static_cast<size_t>(std::min<uint64_t>(recent_count_, to.size()));
  // The ring's oldest tokens go up to its end.
  const size_t first = (recent_count_ - count) % kMaxPenaltyWindow;
  const size_t older = std::min(count, kMaxPenaltyWindow - first);
  std::copy_n(recent() + first, older, to.data());
  std::copy_n(recent(), count - older, to.data() + older);
  return count;
}

void SessionState::WillAbsorb(size_t rows) {
  lease_.MarkUsed(layout_.used_bytes(position_ + rows));
}

void SessionState::Absorbed(size_t rows, std::span<const int32_t> tokens,
                            const float* last_hidden, bool drawn) {
  history().Append(position_, rows, tokens, drawn);
  position_ += rows;
  if (tokens.empty()) after_embedding_ = position_;
  for (const int32_t token : tokens) {
    recent()[recent_count_++ % kMaxPenaltyWindow] = token;
  }
  has_pending_ = last_hidden != nullptr;
  if (has_pending_) {
    std::memcpy(lease_.bytes(), last_hidden,
                layout_.hidden_size() * sizeof(float));
  }
  unfinished_text_.clear();
}

}  // namespace steadystate
