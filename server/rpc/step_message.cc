#include "server/rpc/step_message.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"
#include "server/rpc/received.h"
#include "server/rpc/wire_reader.h"

namespace steadystate {
namespace {

// Fields of v1::StreamStepRequest; the first two also of its Request.
constexpr uint32_t kRequestId = 1;
constexpr uint32_t kStep = 2;
constexpr uint32_t kRequests = 3;
// A field of v1::StepRequest.
constexpr uint32_t kSession = 1;

// Fields beside a message's requests. A client has no reason for more than a
// few, and each has to be looked at.
constexpr size_t kOtherFields = 4096;

// Requests read at once, at most, and bytes of them; but one at least.
constexpr size_t kAtOnce = 64;
constexpr size_t kBytesAtOnce = size_t{16} << 10;
// Of a request that is not read, names are looked for among so many fields:
// clients write them first.
constexpr size_t kNamedWithin = 64;

bool IsA(WireTag tag, uint32_t field) {
  return tag.field == field && tag.type == WireType::kBytes;
}

// Calls visit(tag, contents) for each field of type kBytes among the first
// `most` fields. Returns what comes after these, or nothing if they are not
// well formed.
template <typename Visitor>
std::optional<absl::string_view> VisitBytes(absl::string_view wire, size_t most,
                                            const Visitor& visit) {
  WireReader reader(wire);
  for (size_t i = 0; i < most && !reader.done(); ++i) {
    WireTag tag;
    absl::string_view contents;
    if (!reader.ReadTag(tag)) return std::nullopt;
    if (tag.type != WireType::kBytes) {
      if (!reader.Skip(tag)) return std::nullopt;
      continue;
    }
    if (!reader.ReadBytes(contents)) return std::nullopt;
    visit(tag, contents);
  }
  return reader.rest();
}

absl::Status TooManySteps(size_t count, size_t bound) {
  return MakeError(
      ErrorReason::kInvalidArgument,
      absl::StrCat("a message of the stream has ", count,
                   " steps or more; it may have at most ", bound,
                   ": send them in several messages. None of it was carried "
                   "out, and the stream ends"),
      {{"field", "requests"},
       {"value", absl::StrCat(count)},
       {"bounds", absl::StrCat("at most ", bound)}});
}

absl::Status TooManyFields(size_t bound) {
  return MakeError(
      ErrorReason::kInvalidArgument,
      absl::StrCat("a message of the stream has more than ", bound,
                   " fields: send its steps in several messages, and no "
                   "fields that are unknown here. None of it was carried out, "
                   "and the stream ends"),
      {{"field", "the stream's message"},
       {"bounds", absl::StrCat("at most ", bound, " fields")}});
}

// What request number `index` of a message is called.
std::string NameOf(size_t index) {
  return absl::StrCat("request ", index, " of the stream's message");
}

}  // namespace

absl::Status StepMessage::Take(grpc::ByteBuffer& buffer) {
  STEADYSTATE_RETURN_IF_ERROR(TakeBytes(buffer, wire_));
  const absl::Status status = Scan(BytesOf(wire_));
  if (!status.ok()) Clear();
  return status;
}

absl::Status StepMessage::Scan(absl::string_view wire) {
  size_t requests = 0;
  size_t own_parts = 0;
  const size_t most_fields = max_steps_ + kOtherFields;
  const std::optional<absl::string_view> rest = VisitBytes(
      wire, most_fields, [&](WireTag tag, absl::string_view /*contents*/) {
        if (IsA(tag, kRequests)) ++requests;
        if (IsA(tag, kStep)) ++own_parts;
      });
  if (!rest.has_value()) {
    return UnreadableError("the stream's message",
                           *v1::StreamStepRequest::descriptor());
  }
  // A message without anything is a request that lacks its step.
  has_own_ = own_parts > 0 || requests == 0;
  count_ = requests + (has_own_ ? 1 : 0);
  if (count_ > max_steps_) return TooManySteps(count_, max_steps_);
  if (!rest->empty()) return TooManyFields(most_fields);
  unread_ = count_;
  rest_ = wire;
  if (has_own_) FindOwn(wire, requests);
  return absl::OkStatus();
}

void StepMessage::FindOwn(absl::string_view wire, size_t requests) {
  own_ = wire;
  if (requests == 0) return;
  WireReader reader(wire);
  while (!reader.done()) {
    const absl::string_view before = reader.rest();
    WireTag tag;
    if (!reader.ReadTag(tag) || !reader.Skip(tag)) break;
    if (!IsA(tag, kRequestId) && !IsA(tag, kStep)) continue;
    const size_t bytes = before.size() - reader.rest().size();
    own_copy_.append(before.data(), bytes);
  }
  own_ = own_copy_;
}

bool StepMessage::NextRequest(absl::string_view& record) {
  if (has_own_ && unread_ == count_) {
    record = own_;
    return true;
  }
  WireReader reader(rest_);
  while (!reader.done()) {
    WireTag tag;
    if (!reader.ReadTag(tag)) return false;
    if (!IsA(tag, kRequests)) {
      if (!reader.Skip(tag)) return false;
      continue;
    }
    if (!reader.ReadBytes(record)) return false;
    rest_ = reader.rest();
    return true;
  }
  return false;
}

absl::Status StepMessage::Read() {
  if (size() > 0) return absl::OkStatus();
  if (!batch_->requests().empty()) batch_.Clear();
  ready_.clear();
  consumed_ = 0;
  size_t bytes = 0;
  while (unread_ > 0 && ready_.size() < kAtOnce && bytes < kBytesAtOnce) {
    const absl::string_view before = rest_;
    absl::string_view record;
    absl::Status status;
    if (NextRequest(record)) {
      status = Parse(record, *batch_->add_requests());
    } else {
      status =
          UnreadableError(NameOf(count_ - unread_), *Request::descriptor());
    }
    if (!status.ok()) {
      // Those before it come first; then it is found again.
      rest_ = before;
      return ready_.empty() ? status : absl::OkStatus();
    }
    ready_.push_back(before);
    --unread_;
    bytes += record.size();
    if (!refusal_.ok()) break;
  }
  return absl::OkStatus();
}

absl::Status StepMessage::Parse(absl::string_view record, Request& to) {
  refusal_ = absl::OkStatus();
  if (record.size() > kSmallMessageBytes) {
    const size_t bytes =
        ParsedBytes(record, *Request::descriptor(), max_parsed_bytes_);
    if (bytes > max_parsed_bytes_) return ParseNames(record, to);
  }
  if (to.ParseFromArray(record.data(), static_cast<int>(record.size()))) {
    return absl::OkStatus();
  }
  return UnreadableError(NameOf(count_ - unread_), *Request::descriptor());
}

// Reads what its answer repeats.
absl::Status StepMessage::ParseNames(absl::string_view record, Request& to) {
  std::string request_id;
  std::string session;
  const auto visit_step = [&](WireTag tag, absl::string_view contents) {
    if (IsA(tag, kSession)) session = std::string(contents);
  };
  const auto visit = [&](WireTag tag, absl::string_view contents) {
    if (IsA(tag, kRequestId)) request_id = std::string(contents);
    if (IsA(tag, kStep)) VisitBytes(contents, kNamedWithin, visit_step);
  };
  const bool good = VisitBytes(record, kNamedWithin, visit).has_value();
  to.set_request_id(std::move(request_id));
  to.mutable_step()->set_session(std::move(session));
  // As the parser would, looks at its texts.
  Request again;
  if (!good || !again.ParseFromString(to.SerializePartialAsString())) {
    return UnreadableError(NameOf(count_ - unread_), *Request::descriptor());
  }
  refusal_ = TooMuchToReadError("request", record.size(), max_parsed_bytes_);
  return absl::OkStatus();
}

void StepMessage::Unread() {
  if (size() == 0) return;
  rest_ = ready_[consumed_];
  unread_ += size();
  ready_.clear();
  consumed_ = 0;
  refusal_ = absl::OkStatus();
  batch_.Clear();
}

void StepMessage::Clear() {
  wire_ = grpc::Slice();
  has_own_ = false;
  own_copy_ = std::string();
  own_ = {};
  rest_ = {};
  count_ = 0;
  unread_ = 0;
  ready_.clear();
  consumed_ = 0;
  refusal_ = absl::OkStatus();
  batch_.Clear();
}

}  // namespace steadystate
