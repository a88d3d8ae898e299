#include "server/engine/turn_queue.h"

namespace steadystate {

void TurnQueue::Add(Request& request) {
  Client& client = *request.client;
  Client::Line& line = LineOf(client);
  request.place.previous = line.last;
  request.place.next = nullptr;
  if (line.first == nullptr) {
    line.first = &request;
    OpenLine(client);
  } else {
    line.last->place.next = &request;
  }
  line.last = &request;
}

void TurnQueue::TakeFront() {
  Client& client = *LineOf(*last_).next;
  Remove(*LineOf(client).first);
  if (LineOf(client).first != nullptr) last_ = &client;
}

void TurnQueue::Remove(Request& request) {
  Client::Line& line = LineOf(*request.client);
  Request* const previous = request.place.previous;
  Request* const next = request.place.next;
  (previous == nullptr ? line.first : previous->place.next) = next;
  (next == nullptr ? line.last : next->place.previous) = previous;
  if (line.first == nullptr) CloseLine(*request.client);
}

void TurnQueue::OpenLine(Client& client) {
  Client::Line& line = LineOf(client);
  if (empty()) {
    line.next = &client;
    line.previous = &client;
  } else {
    line.next = LineOf(*last_).next;
    line.previous = last_;
    LineOf(*line.next).previous = &client;
    LineOf(*last_).next = &client;
  }
  last_ = &client;
}

void TurnQueue::CloseLine(Client& client) {
  const Client::Line& line = LineOf(client);
  if (line.next == &client) {
    last_ = nullptr;
    return;
  }
  LineOf(*line.previous).next = line.next;
  LineOf(*line.next).previous = line.previous;
  if (last_ == &client) last_ = line.previous;
}

}  // namespace steadystate
