#include "tests/server/rpc/raw_call.h"

namespace steadystate {

RawCall::RawCall(const std::shared_ptr<grpc::Channel>& channel,
                 const std::string& path)
    : stub_(channel), call_(stub_.PrepareCall(&context_, path, &queue_)) {
  call_->StartCall(this);
  Done();
}

RawCall::~RawCall() {
  if (!finished_) {
    context_.TryCancel();
    Finish();
  }
  queue_.Shutdown();
  while (Done()) {
  }
}

bool RawCall::Write(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  call_->Write(grpc::ByteBuffer(&slice, 1), this);
  return Done();
}

bool RawCall::WritesDone() {
  call_->WritesDone(this);
  return Done();
}

std::optional<std::string> RawCall::Read() {
  grpc::ByteBuffer buffer;
  call_->Read(&buffer, this);
  if (!Done()) return std::nullopt;
  grpc::Slice slice;
  if (!buffer.DumpToSingleSlice(&slice).ok()) return std::nullopt;
  return std::string(slice.begin(), slice.end());
}

grpc::Status RawCall::Finish() {
  grpc::Status status;
  call_->Finish(&status, this);
  Done();
  finished_ = true;
  return status;
}

bool RawCall::Done() {
  void* tag = nullptr;
  bool good = false;
  return queue_.Next(&tag, &good) && good;
}

}  // namespace steadystate
