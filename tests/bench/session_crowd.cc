#include "tests/bench/session_crowd.h"

#include <algorithm>
#include <future>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/base/status_macros.h"
#include "steadystate/v1/generation.grpc.pb.h"
#include "tests/bench/random_bits.h"
#include "tests/bench/stopwatch.h"

namespace steadystate::bench {
namespace {

// Steps of a stream that are under way at once: fewer than may wait on one
// session, which all of them may be.
constexpr size_t kWindow = 16;

// One step in so many has several tokens, at most so many.
constexpr uint64_t kLongOneIn = 16;
constexpr uint64_t kLongest = 24;

std::string Bytes(const google::protobuf::RepeatedField<float>& values) {
  return {reinterpret_cast<const char*>(values.data()),
          static_cast<size_t>(values.size()) * sizeof(float)};
}

absl::Status Broken(const grpc::Status& status) {
  return absl::InternalError(
      absl::StrCat("a stream of steps ended: ", status.error_message()));
}

}  // namespace

SessionCrowd::SessionCrowd(client::Client client, const CrowdOptions& options)
    : client_(std::move(client)),
      options_(options),
      names_(options.sessions),
      steps_(options.sessions),
      answers_(options.sessions) {}

absl::Status SessionCrowd::OnEachStream(
    const std::function<absl::Status(size_t stream)>& work) {
  std::vector<std::future<absl::Status>> all;
  for (size_t i = 0; i < options_.streams; ++i) {
    all.push_back(std::async(std::launch::async, work, i));
  }
  absl::Status status;
  for (std::future<absl::Status>& one : all) status.Update(one.get());
  return status;
}

absl::Status SessionCrowd::Create() {
  return OnEachStream([this](size_t stream) { return CreateOf(stream); });
}

absl::Status SessionCrowd::Step() {
  return OnEachStream([this](size_t stream) { return StepOf(stream); });
}

absl::Status SessionCrowd::CreateOf(size_t stream) {
  for (size_t i = stream; i < options_.sessions; i += options_.streams) {
    STEADYSTATE_ASSIGN_OR_RETURN(const v1::Session session,
                                 client_.CreateSession({}));
    names_[i] = session.name();
  }
  return absl::OkStatus();
}

bool SessionCrowd::Checked(size_t session) const {
  const size_t every =
      options_.sessions / std::max(options_.checked, size_t{1});
  return session % every == 0 && session / every < options_.checked;
}

v1::StepRequest SessionCrowd::Request(size_t session, size_t step) const {
  const uint64_t seed = RandomBits(options_.seed, session);
  const uint64_t bits = RandomBits(seed, step);
  const uint64_t tokens =
      bits % kLongOneIn == 0 ? 1 + (bits >> 8) % kLongest : 1;
  v1::StepRequest request;
  request.set_session(names_[session]);
  for (uint64_t i = 0; i < tokens; ++i) {
    request.mutable_tokens()->add_ids(
        static_cast<int32_t>(RandomBits(bits, i) % options_.vocab_size));
  }
  request.mutable_output()->set_logits(Checked(session));
  return request;
}

std::vector<size_t> SessionCrowd::OrderOf(size_t stream) const {
  std::vector<size_t> order;
  for (size_t i = stream; i < options_.sessions; i += options_.streams) {
    order.insert(order.end(), options_.steps, i);
  }
  const uint64_t seed = RandomBits(~options_.seed, stream);
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[RandomBits(seed, i) % i]);
  }
  return order;
}

absl::Status SessionCrowd::StepOf(size_t stream) {
  grpc::ClientContext context;
  const auto stub = v1::GenerationService::NewStub(client_.channel());
  const auto call = stub->StreamStep(&context);
  const std::vector<size_t> order = OrderOf(stream);
  v1::StreamStepRequest request;
  v1::StreamStepResponse response;
  size_t asked = 0;
  size_t answered = 0;
  while (answered < order.size()) {
    for (; asked < order.size() && asked < answered + kWindow; ++asked) {
      const size_t session = order[asked];
      request.set_request_id(absl::StrCat(session));
      *request.mutable_step() = Request(session, steps_[session]++);
      if (!call->Write(request)) return Broken(call->Finish());
    }
    if (!call->Read(&response)) return Broken(call->Finish());
    for (const auto& result : response.results()) {
      size_t session = 0;
      if (!result.has_step() ||
          !absl::SimpleAtoi(result.request_id(), &session) ||
          session >= answers_.size()) {
        return absl::InternalError(
            absl::StrCat("a step failed: ", result.ShortDebugString()));
      }
      ++answered;
      answers_[session] += Bytes(result.step().logits());
    }
  }
  call->WritesDone();
  const grpc::Status end = call->Finish();
  return end.ok() ? absl::OkStatus() : Broken(end);
}

absl::StatusOr<Samples> SessionCrowd::StepAtRandom(const Walk& walk) {
  Samples stored_ms;
  for (size_t i = 0; i < walk.steps; ++i) {
    const absl::Time start = absl::Now();
    if (walk.stopped != nullptr && *walk.stopped) break;
    STEADYSTATE_RETURN_IF_ERROR(
        StepOne(RandomBits(walk.seed, i) % options_.sessions, stored_ms));
    absl::SleepFor(start + walk.apart - absl::Now());
  }
  return stored_ms;
}

absl::StatusOr<Samples> SessionCrowd::StepChecked() {
  Samples stored_ms;
  for (size_t i = 0; i < options_.sessions; ++i) {
    if (!Checked(i)) continue;
    STEADYSTATE_RETURN_IF_ERROR(StepOne(i, stored_ms));
  }
  return stored_ms;
}

absl::Status SessionCrowd::StepOne(size_t session, Samples& stored_ms) {
  v1::GetSessionRequest get;
  get.set_name(names_[session]);
  STEADYSTATE_ASSIGN_OR_RETURN(const v1::Session before,
                               client_.GetSession(get));
  const auto stub = v1::GenerationService::NewStub(client_.channel());
  const v1::StepRequest request = Request(session, steps_[session]++);
  grpc::ClientContext context;
  v1::StepResponse response;
  grpc::Status status;
  const double seconds =
      TimeOnce([&] { status = stub->Step(&context, request, &response); });
  if (!status.ok()) return Broken(status);
  answers_[session] += Bytes(response.logits());
  if (before.state() == v1::Session::HIBERNATED) stored_ms.Add(1e3 * seconds);
  return absl::OkStatus();
}

absl::StatusOr<std::string> SessionCrowd::Replay(size_t session) const {
  STEADYSTATE_ASSIGN_OR_RETURN(const v1::Session again,
                               client_.CreateSession({}));
  const auto stub = v1::GenerationService::NewStub(client_.channel());
  std::string answers;
  for (size_t step = 0; step < steps_[session]; ++step) {
    v1::StepRequest request = Request(session, step);
    request.set_session(again.name());
    grpc::ClientContext context;
    v1::StepResponse response;
    const grpc::Status status = stub->Step(&context, request, &response);
    if (!status.ok()) return Broken(status);
    answers += Bytes(response.logits());
  }
  v1::DeleteSessionRequest gone;
  gone.set_name(again.name());
  STEADYSTATE_RETURN_IF_ERROR(client_.DeleteSession(gone));
  return answers;
}

absl::StatusOr<size_t> SessionCrowd::ReplayDiffering() {
  size_t differing = 0;
  for (size_t i = 0; i < options_.sessions; ++i) {
    if (!Checked(i)) continue;
    STEADYSTATE_ASSIGN_OR_RETURN(const std::string alone, Replay(i));
    if (alone.empty() || alone != answers_[i]) ++differing;
  }
  return differing;
}

}  // namespace steadystate::bench
