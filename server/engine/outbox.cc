#include "server/engine/outbox.h"

#include <span>

#include "server/engine/request_pool.h"

namespace steadystate {

void Outbox::Send() {
  for (Request* const request : going_on_) {
    request->task->Answer(nullptr, request->times, round_);
  }
  for (const std::unique_ptr<Request>& request : ended_) {
    request->task->Answer(&*request->end, request->times, round_);
  }
  round_.HandOver();
  // Before the receivers' clients come back for more.
  GiveBack();
  round_.End();
}

// Those of one kind together where they lie together.
void Outbox::GiveBack() {
  for (Request* const request : going_on_) request->task->TakeBack();
  going_on_.clear();
  answered_ += ended_.size();
  size_t first = 0;
  for (size_t i = 0; i < ended_.size(); ++i) {
    RequestPool* const pool = ended_[i]->pool;
    if (i + 1 < ended_.size() && ended_[i + 1]->pool == pool) continue;
    pool->GiveBack(std::span(ended_).subspan(first, i + 1 - first));
    first = i + 1;
  }
  ended_.clear();
}

}  // namespace steadystate
