#include "server/rpc/answer_order.h"

#include <utility>

#include "server/rpc/answer.h"

namespace steadystate {
namespace {

// Sessions of one stream that are remembered, beside those with requests.
constexpr size_t kMaxLanes = 2048;
// Tag and length of a result within its message.
constexpr size_t kResultFramingBytes = 8;

}  // namespace

AnswerOrder::Tag AnswerOrder::Add(absl::string_view request_id,
                                  absl::string_view session, size_t cost) {
  if (free_.empty()) {
    free_.push_back(pool_.size());
    pool_.push_back(std::make_unique<Pending>());
  }
  const size_t index = free_.back();
  free_.pop_back();
  Pending& pending = *pool_[index];
  pending.tag = ++added_ << kIndexBits | index;
  pending.request_id.assign(request_id.data(), request_id.size());
  pending.lane = LaneOf(session);
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

void AnswerOrder::Answer(Tag tag, const StepResult& result, Queue* out) {
  Pending& pending = *pool_[Index(tag)];
  const std::string& session = pending.lane->first;
  if (pending.first && out != nullptr) {
    // Straight into the message: its logits are copied once.
    const size_t bytes =
        WireBytes(result) + pending.request_id.size() + 2 * session.size();
    Result& to = *out->RoomFor(bytes).add_results();
    ToProto(result, session, *to.mutable_step());
    SetNames(pending, to);
    Release(Forget(pending), out);
    return;
  }
  auto answer = std::make_unique<Result>();
  if (out != nullptr) {
    ToProto(result, session, *answer->mutable_step());
    SetNames(pending, *answer);
  }
  Hold(pending, std::move(answer), out);
}

void AnswerOrder::Refuse(Tag tag, const PublicError& error, Queue* out) {
  Pending& pending = *pool_[Index(tag)];
  auto answer = std::make_unique<Result>();
  if (out != nullptr) {
    *answer->mutable_error() = ToRpcStatus(error);
    SetNames(pending, *answer);
  }
  Hold(pending, std::move(answer), out);
}

void AnswerOrder::DropAnswers() {
  for (const std::unique_ptr<Pending>& pending : pool_) {
    if (pending->answer != nullptr) {
      pending->answer = std::make_unique<Result>();
    }
  }
}

void AnswerOrder::SetNames(const Pending& pending, Result& to) {
  to.set_request_id(pending.request_id);
  to.set_session(pending.lane->first);
}

void AnswerOrder::Hold(Pending& pending, std::unique_ptr<Result> answer,
                       Queue* out) {
  pending.answer = std::move(answer);
  if (pending.first) Release(&pending, out);
}

void AnswerOrder::Release(Pending* pending, Queue* out) {
  while (pending != nullptr) {
    pending->first = true;
    if (pending->answer == nullptr) return;
    if (out != nullptr) {
      // It stays where it is and becomes the message's, whose own memory does
      // not count it.
      const Result& answer = *pending->answer;
      const size_t bytes = answer.ByteSizeLong() + kResultFramingBytes;
      out->RoomFor(bytes, answer.SpaceUsedLong())
          .mutable_results()
          ->AddAllocated(pending->answer.release());
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
