#include "server/rpc/answer_order.h"

#include <utility>

namespace steadystate {
namespace {

// Sessions of one stream that are remembered, beside those with requests.
constexpr size_t kMaxLanes = 2048;

}  // namespace

AnswerOrder::Tag AnswerOrder::Add(const StepNames& names, size_t cost) {
  if (free_.empty()) {
    free_.push_back(pool_.size());
    pool_.push_back(std::make_unique<Pending>());
  }
  const size_t index = free_.back();
  free_.pop_back();
  Pending& pending = *pool_[index];
  pending.tag = ++added_ << kIndexBits | index;
  pending.request_id.assign(names.request_id.data(), names.request_id.size());
  pending.form = names.form;
  pending.lane = LaneOf(names.session);
  pending.cost = cost;
  Pending* const last = std::exchange(pending.lane->second, &pending);
  pending.first = last == nullptr;
  if (last != nullptr) last->next = &pending;
  ++count_;
  cost_ += cost;
  return pending.tag;
}

AnswerOrder::Lanes::pointer AnswerOrder::LaneOf(absl::string_view session) {
  const auto found = lanes_.find(session);
  if (found != lanes_.end()) return &*found;
  if (lanes_.size() >= kMaxLanes) {
    absl::erase_if(lanes_,
                   [](const auto& lane) { return lane.second == nullptr; });
  }
  return &*lanes_.emplace(session, nullptr).first;
}

void AnswerOrder::Answer(Tag tag, const StepResult& result, StepQueue* out) {
  Pending& pending = *pool_[Index(tag)];
  if (out == nullptr) {
    Hold(pending, nullptr, out);
  } else if (pending.first) {
    // Straight into the message: its logits are copied once.
    protocol_.Answer(NamesOf(pending), result, *out);
    Release(Forget(pending), out);
  } else {
    Hold(pending, protocol_.Answer(NamesOf(pending), result), out);
  }
}

void AnswerOrder::Refuse(Tag tag, const PublicError& error, StepQueue* out) {
  Pending& pending = *pool_[Index(tag)];
  Hold(pending,
       out == nullptr ? nullptr : protocol_.Refuse(NamesOf(pending), error),
       out);
}

void AnswerOrder::DropAnswers() {
  for (const std::unique_ptr<Pending>& pending : pool_) {
    pending->answer.reset();
  }
}

StepNames AnswerOrder::NamesOf(const Pending& pending) {
  return {.request_id = pending.request_id,
          .session = pending.lane->first,
          .form = pending.form};
}

void AnswerOrder::Hold(Pending& pending,
                       std::unique_ptr<google::protobuf::Message> answer,
                       StepQueue* out) {
  pending.answered = true;
  pending.answer = std::move(answer);
  if (pending.first) Release(&pending, out);
}

void AnswerOrder::Release(Pending* pending, StepQueue* out) {
  while (pending != nullptr) {
    pending->first = true;
    if (!pending->answered) return;
    if (out != nullptr && pending->answer != nullptr) {
      protocol_.Send(std::move(pending->answer), *out);
    }
    pending = Forget(*pending);
  }
}

AnswerOrder::Pending* AnswerOrder::Forget(Pending& pending) {
  --count_;
  cost_ -= pending.cost;
  if (pending.next == nullptr) pending.lane->second = nullptr;
  free_.push_back(Index(pending.tag));
  pending.tag = 0;
  pending.id = 0;
  pending.answered = false;
  pending.answer.reset();
  return std::exchange(pending.next, nullptr);
}

bool AnswerOrder::NoteId(Tag tag, RequestId id) {
  if (!IsUnanswered(tag)) return false;
  pool_[Index(tag)]->id = id;
  return true;
}

std::vector<RequestId> AnswerOrder::Ids() const {
  std::vector<RequestId> ids;
  for (const std::unique_ptr<Pending>& pending : pool_) {
    if (pending->id != 0) ids.push_back(pending->id);
  }
  return ids;
}

}  // namespace steadystate
