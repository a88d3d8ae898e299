// Goal: a client of KServe's and Triton's protocol finds what it knows: health,
// descriptions, sequences over calls and streams, errors that say what to do;
// and what it computes is to the byte what our own services compute. Method: a
// real server and the stub of the published service.
#include "server/rpc/inference/inference_service.h"

#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "inference/grpc_service.grpc.pb.h"
#include "inference/grpc_service.pb.h"
#include "tests/server/rpc/open_server.h"
#include "tests/server/rpc/raw_call.h"
#include "tests/server/rpc/wire_error.h"
#include "tests/testing/manual_clock.h"

namespace steadystate::inference_service_test {
namespace {

using inference::ModelInferRequest;
using inference::ModelInferResponse;
using inference::ModelStreamInferResponse;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Stub = inference::GRPCInferenceService::Stub;
using Stream =
    grpc::ClientReaderWriter<ModelInferRequest, ModelStreamInferResponse>;

// How a request stands in its sequence.
enum class At : uint8_t { kStart, kMiddle, kEnd };

template <typename T>
std::vector<T> Values(const ModelInferResponse& response,
                      const std::string& name) {
  for (int i = 0; i < response.outputs_size(); ++i) {
    if (response.outputs(i).name() != name) continue;
    const std::string& raw = response.raw_output_contents(i);
    std::vector<T> values(raw.size() / sizeof(T));
    std::memcpy(values.data(), raw.data(), raw.size());
    EXPECT_EQ(response.outputs(i).shape_size(), 1);
    EXPECT_EQ(response.outputs(i).shape(0), values.size());
    return values;
  }
  return {};
}

std::vector<std::string> Outputs(const ModelInferResponse& response) {
  std::vector<std::string> names;
  for (const auto& output : response.outputs()) {
    names.push_back(absl::StrCat(output.name(), " ", output.datatype()));
  }
  return names;
}

class InferenceServiceTest : public testing::Test {
 protected:
  explicit InferenceServiceTest(const OpenServerOptions& options = {})
      : server_(options),
        stub_(inference::GRPCInferenceService::NewStub(server_.channel())) {}

  const std::string& model() { return server_.model().description().id; }

  // Answered in full, and greedily.
  ModelInferRequest Of(const std::vector<int32_t>& tokens) {
    ModelInferRequest request;
    request.set_model_name(model());
    auto& input = *request.add_inputs();
    input.set_name("tokens");
    input.set_datatype("INT32");
    input.add_shape(static_cast<int64_t>(tokens.size()));
    std::string& raw = *request.add_raw_input_contents();
    raw.resize(tokens.size() * sizeof(int32_t));
    std::memcpy(raw.data(), tokens.data(), raw.size());
    (*request.mutable_parameters())["temperature"].set_int64_param(0);
    return request;
  }
  ModelInferRequest Of(int64_t sequence, At at,
                       const std::vector<int32_t>& tokens) {
    ModelInferRequest request = Of(tokens);
    auto& parameters = *request.mutable_parameters();
    parameters["sequence_id"].set_int64_param(sequence);
    parameters["sequence_start"].set_bool_param(at == At::kStart);
    parameters["sequence_end"].set_bool_param(at == At::kEnd);
    return request;
  }

  grpc::Status Infer(const ModelInferRequest& request,
                     ModelInferResponse& response) {
    Context context;
    return stub_->ModelInfer(&context, request, &response);
  }
  ModelInferResponse Infer(const ModelInferRequest& request) {
    ModelInferResponse response;
    EXPECT_THAT(Infer(request, response), IsOk());
    return response;
  }
  grpc::Status Refusal(const ModelInferRequest& request) {
    ModelInferResponse response;
    return Infer(request, response);
  }

  // What our own Step answers.
  v1::StepResponse Own(const std::string& session,
                       const std::vector<int32_t>& tokens) {
    v1::StepRequest request = LogitsStepOf(session, tokens);
    request.mutable_output()->mutable_sample()->set_temperature(0);
    return server_.Step(request);
  }
  static void ExpectEqual(const ModelInferResponse& response,
                          const v1::StepResponse& own) {
    EXPECT_EQ(Values<float>(response, "logits"),
              std::vector<float>(own.logits().begin(), own.logits().end()));
    EXPECT_THAT(Values<int32_t>(response, "sampled_token"),
                ElementsAre(own.sampled_token()));
    EXPECT_THAT(Values<uint64_t>(response, "position"),
                ElementsAre(own.position()));
  }

  OpenServer server_;
  const std::unique_ptr<Stub> stub_;
};

TEST_F(InferenceServiceTest, SaysThatItIsThere) {
  Context live;
  inference::ServerLiveResponse lives;
  ASSERT_THAT(stub_->ServerLive(&live, {}, &lives), IsOk());
  EXPECT_TRUE(lives.live());
  Context ready;
  inference::ServerReadyResponse is_ready;
  ASSERT_THAT(stub_->ServerReady(&ready, {}, &is_ready), IsOk());
  EXPECT_TRUE(is_ready.ready());
  for (const std::string& name : {model(), std::string("other")}) {
    Context context;
    inference::ModelReadyRequest request;
    inference::ModelReadyResponse response;
    request.set_name(name);
    ASSERT_THAT(stub_->ModelReady(&context, request, &response), IsOk());
    EXPECT_EQ(response.ready(), name == model());
  }
  server_.server().AnnounceShutdown(absl::ZeroDuration());
  Context leaving;
  ASSERT_THAT(stub_->ServerReady(&leaving, {}, &is_ready), IsOk());
  EXPECT_FALSE(is_ready.ready());
}

TEST_F(InferenceServiceTest, DescribesItselfAndItsModel) {
  Context context;
  inference::ServerMetadataResponse server;
  ASSERT_THAT(stub_->ServerMetadata(&context, {}, &server), IsOk());
  EXPECT_EQ(server.name(), "steadystate");
  EXPECT_THAT(server.extensions(),
              ElementsAre("sequence", "model_configuration", "parameters",
                          "statistics"));
  inference::ModelMetadataRequest request;
  request.set_name(model());
  inference::ModelMetadataResponse metadata;
  Context second;
  ASSERT_THAT(stub_->ModelMetadata(&second, request, &metadata), IsOk());
  EXPECT_EQ(metadata.name(), model());
  EXPECT_THAT(metadata.versions(), ElementsAre("1"));
  ASSERT_EQ(metadata.inputs_size(), 1);
  EXPECT_EQ(metadata.inputs(0).datatype(), "INT32");
  EXPECT_THAT(metadata.inputs(0).shape(), ElementsAre(-1));
  // What an answer has is what was promised.
  const ModelInferResponse answer = Infer(Of({1, 2}));
  ASSERT_EQ(metadata.outputs_size(), answer.outputs_size());
  inference::ModelConfigRequest config_request;
  config_request.set_name(model());
  inference::ModelConfigResponse config;
  Context third;
  ASSERT_THAT(stub_->ModelConfig(&third, config_request, &config), IsOk());
  ASSERT_EQ(config.config().output_size(), answer.outputs_size());
  for (int i = 0; i < answer.outputs_size(); ++i) {
    const auto& output = answer.outputs(i);
    EXPECT_EQ(metadata.outputs(i).name(), output.name());
    EXPECT_EQ(metadata.outputs(i).datatype(), output.datatype());
    EXPECT_EQ(metadata.outputs(i).shape(0), output.shape(0));
    EXPECT_EQ(config.config().output(i).name(), output.name());
    EXPECT_EQ(inference::DataType_Name(config.config().output(i).data_type()),
              "TYPE_" + output.datatype());
    EXPECT_EQ(config.config().output(i).dims(0), output.shape(0));
  }
  EXPECT_EQ(config.config().max_batch_size(), 0);
  const auto& sequences = config.config().sequence_batching();
  EXPECT_EQ(sequences.max_sequence_idle_microseconds(),
            absl::ToInt64Microseconds(EngineOptions().session_ttl));
  EXPECT_GT(sequences.oldest().max_candidate_sequences(), 0);
  request.set_name("other");
  Context fourth;
  EXPECT_THAT(stub_->ModelMetadata(&fourth, request, &metadata),
              HasReason(ErrorReason::kModelNotFound));
}

TEST_F(InferenceServiceTest, ASequenceIsASession) {
  const std::string own = server_.CreateSession();
  ExpectEqual(Infer(Of(7, At::kStart, {1, 2, 3})), Own(own, {1, 2, 3}));
  EXPECT_EQ(server_.PositionOf("sessions/sequence-7"), 3u);
  // Either protocol goes on where the other has been.
  EXPECT_EQ(Own("sessions/sequence-7", {4}).position(), 4u);
  Own(own, {4});
  ExpectEqual(Infer(Of(7, At::kMiddle, {5})), Own(own, {5}));
  ExpectEqual(Infer(Of(7, At::kEnd, {6})), Own(own, {6}));
  const grpc::Status gone = Refusal(Of(7, At::kMiddle, {7}));
  EXPECT_THAT(gone, HasReason(ErrorReason::kSessionNotFound));
  EXPECT_THAT(gone.error_message(),
              HasSubstr(absl::StrCat(
                  "inference request for sequence 7 to model '", model(),
                  "' must specify the START flag on the first request of the "
                  "sequence")));
}

TEST_F(InferenceServiceTest, ARequestOfNoSequenceHasAStateOfItsOwn) {
  const std::string own = server_.CreateSession();
  const v1::StepResponse expected = Own(own, {1, 2, 3});
  for (int i = 0; i < 3; ++i) ExpectEqual(Infer(Of({1, 2, 3})), expected);
}

TEST_F(InferenceServiceTest, AnswersWhatIsAskedForAndRepeatsTheId) {
  ModelInferRequest request = Of({1});
  request.clear_parameters();
  request.set_id("name");
  request.add_outputs()->set_name("position");
  const ModelInferResponse response = Infer(request);
  EXPECT_EQ(response.id(), "name");
  EXPECT_EQ(response.model_name(), model());
  EXPECT_EQ(response.model_version(), "1");
  EXPECT_THAT(Outputs(response), ElementsAre("position UINT64"));
  EXPECT_EQ(response.raw_output_contents_size(), 1);
  EXPECT_THAT(response.parameters(), IsEmpty());
  request.clear_outputs();
  (*request.mutable_parameters())["triton_enable_empty_final_response"]
      .set_bool_param(true);
  const ModelInferResponse whole = Infer(request);
  EXPECT_THAT(Outputs(whole), ElementsAre("sampled_token INT32", "logits FP32",
                                          "position UINT64"));
  EXPECT_TRUE(whole.parameters().at("triton_final_response").bool_param());
}

TEST_F(InferenceServiceTest, ARepeatIsToldAgain) {
  ModelInferRequest request = Of(5, At::kStart, {1, 2});
  request.set_id("first");
  (*request.mutable_parameters())["expected_position"].set_int64_param(0);
  const ModelInferResponse first = Infer(request);
  const ModelInferResponse again = Infer(request);
  EXPECT_EQ(Values<float>(again, "logits"), Values<float>(first, "logits"));
  EXPECT_TRUE(again.parameters().at("replayed").bool_param());
  EXPECT_EQ(server_.PositionOf("sessions/sequence-5"), 2u);
  // Something else by that id is refused in the protocol's names.
  *request.mutable_raw_input_contents(0) =
      Of(5, At::kStart, {1, 3}).raw_input_contents(0);
  ModelInferResponse refused;
  const grpc::Status status = Infer(request, refused);
  EXPECT_THAT(status, HasReason(ErrorReason::kRequestIdReused));
  EXPECT_EQ(ToWireError(status).metadata.at("field"), "id");
  EXPECT_TRUE(absl::StartsWith(status.error_message(), "id 'first'"))
      << status.error_message();
}

TEST_F(InferenceServiceTest, CallsOfOneConnectionWaitForEachOther) {
  Infer(Of(9, At::kStart, {1}));
  std::vector<std::thread> calls;
  std::vector<ModelInferResponse> responses(5);
  grpc::Status elsewhere;
  {
    EngineHold hold(server_);
    for (ModelInferResponse& response : responses) {
      calls.emplace_back([&] { response = Infer(Of(9, At::kMiddle, {2})); });
    }
    server_.WaitForMetric("steadystate_requests_waiting", 5);
    // Others are told to come again.
    const auto other =
        inference::GRPCInferenceService::NewStub(server_.NewChannel());
    Context context;
    ModelInferResponse response;
    elsewhere = other->ModelInfer(&context, Of(9, At::kMiddle, {2}), &response);
  }
  for (std::thread& call : calls) call.join();
  std::set<uint64_t> positions;
  for (const ModelInferResponse& response : responses) {
    for (const auto at : Values<uint64_t>(response, "position")) {
      positions.insert(at);
    }
  }
  EXPECT_THAT(positions, ElementsAre(2u, 3u, 4u, 5u, 6u));
  EXPECT_THAT(elsewhere, HasReason(ErrorReason::kSessionBusy));
}

TEST_F(InferenceServiceTest, MethodsOfNoUseHereSayWhatToDoInstead) {
  const std::string service = "/inference.GRPCInferenceService/";
  for (const std::string method :
       {"RepositoryIndex", "RepositoryModelLoad", "RepositoryModelUnload",
        "SystemSharedMemoryStatus", "SystemSharedMemoryRegister",
        "SystemSharedMemoryUnregister", "CudaSharedMemoryStatus",
        "CudaSharedMemoryRegister", "CudaSharedMemoryUnregister",
        "TraceSetting", "LogSettings"}) {
    RawCall call(server_.channel(), service + method);
    call.Write("\xff\xff");
    call.WritesDone();
    EXPECT_FALSE(call.Read().has_value());
    const grpc::Status status = call.Finish();
    EXPECT_THAT(status, HasReason(ErrorReason::kMethodNotServed)) << method;
    EXPECT_THAT(status.error_message(), HasSubstr(method));
  }
}

TEST_F(InferenceServiceTest, CountsWhatItHasDone) {
  const auto statistics = [this] {
    Context context;
    inference::ModelStatisticsResponse response;
    EXPECT_THAT(stub_->ModelStatistics(&context, {}, &response), IsOk());
    EXPECT_EQ(response.model_stats_size(), 1);
    return response.model_stats(0);
  };
  EXPECT_EQ(statistics().inference_count(), 0u);
  EXPECT_EQ(statistics().last_inference(), 0u);
  for (int i = 0; i < 3; ++i) Infer(Of({1, 2}));
  Refusal(Of({-1}));
  const inference::ModelStatistics after = statistics();
  EXPECT_EQ(after.name(), model());
  EXPECT_EQ(after.version(), "1");
  EXPECT_EQ(after.inference_count(), 3u);
  EXPECT_EQ(after.execution_count(), 3u);
  EXPECT_GT(after.last_inference(), 1'500'000'000'000u);
  EXPECT_EQ(after.inference_stats().success().count(), 3u);
  EXPECT_EQ(after.inference_stats().fail().count(), 1u);
  EXPECT_GT(after.inference_stats().compute_infer().ns(), 0u);
  EXPECT_EQ(after.inference_stats().success().ns(),
            after.inference_stats().queue().ns() +
                after.inference_stats().compute_infer().ns());
  EXPECT_EQ(server_.MetricValue(
                "steadystate_request_duration_seconds_count{code=\"OK\","
                "method=\"inference.GRPCInferenceService/ModelInfer\"}"),
            3);
}

// Sends all, closes, and reads to the end, on a thread of its own.
std::vector<ModelStreamInferResponse> Converse(
    Stub& stub, const std::vector<ModelInferRequest>& requests) {
  std::vector<ModelStreamInferResponse> responses;
  Context context;
  const std::unique_ptr<Stream> stream = stub.ModelStreamInfer(&context);
  std::thread reader([&] {
    ModelStreamInferResponse response;
    while (stream->Read(&response)) responses.push_back(response);
  });
  for (const ModelInferRequest& request : requests) {
    if (!stream->Write(request)) break;
  }
  stream->WritesDone();
  reader.join();
  EXPECT_THAT(stream->Finish(), IsOk());
  return responses;
}

TEST_F(InferenceServiceTest, AStreamCarriesManySequencesEachInItsOrder) {
  constexpr int kSequences = 8;
  constexpr int kSteps = 20;
  std::vector<ModelInferRequest> requests;
  for (int step = 0; step < kSteps; ++step) {
    for (int sequence = 1; sequence <= kSequences; ++sequence) {
      const At at = step == 0            ? At::kStart
                    : step + 1 == kSteps ? At::kEnd
                                         : At::kMiddle;
      requests.push_back(Of(sequence, at, {sequence, step}));
      requests.back().set_id(absl::StrCat(sequence));
    }
  }
  std::map<std::string, std::vector<ModelInferResponse>> answers;
  for (const ModelStreamInferResponse& response : Converse(*stub_, requests)) {
    ASSERT_EQ(response.error_message(), "");
    answers[response.infer_response().id()].push_back(
        response.infer_response());
  }
  ASSERT_EQ(answers.size(), size_t{kSequences});
  for (int sequence = 1; sequence <= kSequences; ++sequence) {
    const auto& of_it = answers[absl::StrCat(sequence)];
    ASSERT_EQ(of_it.size(), size_t{kSteps});
    const std::string own = server_.CreateSession();
    for (int step = 0; step < kSteps; ++step) {
      ExpectEqual(of_it[static_cast<size_t>(step)], Own(own, {sequence, step}));
    }
  }
}

TEST_F(InferenceServiceTest, ErrorsInAStreamAreAnswers) {
  std::vector<ModelInferRequest> requests = {
      Of(3, At::kMiddle, {1}), Of(3, At::kStart, {1}), Of(3, At::kMiddle, {-1}),
      Of(3, At::kEnd, {2})};
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].set_id(absl::StrCat(i));
  }
  const auto responses = Converse(*stub_, requests);
  ASSERT_EQ(responses.size(), 4u);
  std::vector<std::string> reasons;
  for (size_t i = 0; i < responses.size(); ++i) {
    const ModelInferResponse& answer = responses[i].infer_response();
    EXPECT_EQ(answer.id(), absl::StrCat(i));
    const auto reason = answer.parameters().find("error_reason");
    reasons.push_back(reason == answer.parameters().end()
                          ? ""
                          : reason->second.string_param());
    EXPECT_EQ(responses[i].error_message().empty(), reasons.back().empty());
  }
  EXPECT_THAT(reasons,
              ElementsAre("SESSION_NOT_FOUND", "", "TOKEN_OUT_OF_RANGE", ""));
  EXPECT_THAT(responses[0].error_message(), HasSubstr("START flag"));
  EXPECT_EQ(responses[2]
                .infer_response()
                .parameters()
                .at("error_token")
                .string_param(),
            "-1");
}

TEST_F(InferenceServiceTest, AStreamsMessageThatIsNoneEndsIt) {
  RawCall call(server_.channel(),
               "/inference.GRPCInferenceService/ModelStreamInfer");
  ASSERT_TRUE(call.Write(Of(3, At::kStart, {1}).SerializeAsString()));
  ASSERT_TRUE(call.Read().has_value());
  call.Write("\xff\xff");
  EXPECT_FALSE(call.Read().has_value());
  EXPECT_THAT(call.Finish(), HasReason(ErrorReason::kInvalidArgument));
  // So does a call whose request is none.
  RawCall unary(server_.channel(),
                "/inference.GRPCInferenceService/ModelInfer");
  unary.Write("\xff\xff");
  unary.WritesDone();
  EXPECT_FALSE(unary.Read().has_value());
  EXPECT_THAT(unary.Finish(), HasReason(ErrorReason::kInvalidArgument));
}

// A message of many small parts would take many times its size.
TEST_F(InferenceServiceTest, WhatWouldTakeTooMuchToReadIsRefusedByItself) {
  ModelInferRequest request = Of({1});
  for (int i = 0; i < 200'000; ++i) request.add_outputs();
  const auto responses = Converse(*stub_, {request, Of({1})});
  ASSERT_EQ(responses.size(), 2u);
  EXPECT_EQ(responses[0]
                .infer_response()
                .parameters()
                .at("error_reason")
                .string_param(),
            "INVALID_ARGUMENT");
  EXPECT_EQ(responses[1].error_message(), "");
  EXPECT_THAT(Refusal(request), HasReason(ErrorReason::kInvalidArgument));
}

class LargeAnswersTest : public InferenceServiceTest {
 protected:
  LargeAnswersTest()
      : InferenceServiceTest([] {
          OpenServerOptions options;
          options.model.vocab_size = 32768;  // 128 KiB an answer
          return options;
        }()) {}
};

TEST_F(LargeAnswersTest, AClientThatDoesNotReadIsNotReadEither) {
  constexpr uint64_t kRequests = 600;
  const std::string other = server_.CreateSession();
  Infer(Of(1, At::kStart, {1}));
  Context context;
  const std::unique_ptr<Stream> stream = stub_->ModelStreamInfer(&context);
  std::thread writer([&] {
    const ModelInferRequest request = Of(1, At::kMiddle, {1});
    for (uint64_t i = 0; i < kRequests; ++i) stream->Write(request);
    stream->WritesDone();
  });
  // It comes to a stop while somebody else goes on.
  uint64_t position = 0;
  for (int unchanged = 0; unchanged < 200 && position < kRequests;) {
    const uint64_t before = position;
    server_.Step(StepOf(other, {1}));
    position = server_.PositionOf("sessions/sequence-1");
    unchanged = position == before ? unchanged + 1 : 0;
  }
  // Our bound is 2 MiB; the rest is what sockets and HTTP/2 hold.
  EXPECT_LT(position, uint64_t{300});
  ModelStreamInferResponse response;
  uint64_t answers = 0;
  while (stream->Read(&response)) ++answers;
  writer.join();
  EXPECT_THAT(stream->Finish(), IsOk());
  EXPECT_EQ(answers, kRequests);
  EXPECT_EQ(server_.PositionOf("sessions/sequence-1"), kRequests + 1);
}

// A base, so that it outlives the server.
struct OwnClock {
  ManualClock clock;
};

class LongIdleTest : protected OwnClock, public InferenceServiceTest {
 protected:
  LongIdleTest()
      : InferenceServiceTest([this] {
          OpenServerOptions options;
          options.clock = &clock;
          return options;
        }()) {}
};

// Triton forgets one that has been idle for a second.
TEST_F(LongIdleTest, ASequenceOutlastsAPause) {
  Infer(Of(1, At::kStart, {1, 2}));
  clock.Advance(absl::Minutes(30));
  EXPECT_THAT(Values<uint64_t>(Infer(Of(1, At::kMiddle, {3})), "position"),
              ElementsAre(3u));
  clock.Advance(EngineOptions().session_ttl + absl::Seconds(1));
  EXPECT_THAT(Refusal(Of(1, At::kMiddle, {4})),
              HasReason(ErrorReason::kSessionExpired));
}

}  // namespace
}  // namespace steadystate::inference_service_test
