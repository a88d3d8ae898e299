// Goal: a request of KServe's protocol becomes the step that it asks for, in
// whichever of the protocol's forms it comes, and each fault is told by the
// field that has it. Method: requests in all forms, and with one fault each.
#include "server/rpc/inference/infer_request.h"

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "inference/grpc_service.pb.h"
#include "server/rpc/answer.h"
#include "server/rpc/inference/infer_parameters.h"
#include "tests/server/rpc/wire_error.h"
#include "tests/testing/tiny_model.h"

namespace steadystate::infer_request_test {
namespace {

using inference::ModelInferRequest;
using testing::ElementsAre;

template <typename T>
std::string Raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()),
          values.size() * sizeof(T)};
}

class InferRequestTest : public testing::Test {
 protected:
  static constexpr size_t kMessageBytes = size_t{1} << 20;

  // Tokens as raw INT32.
  ModelInferRequest Of(const std::vector<int32_t>& tokens) {
    ModelInferRequest request;
    request.set_model_name(model_->description().id);
    auto& input = *request.add_inputs();
    input.set_name("tokens");
    input.set_datatype("INT32");
    input.add_shape(static_cast<int64_t>(tokens.size()));
    request.add_raw_input_contents(Raw(tokens));
    return request;
  }
  // The same without tokens.
  ModelInferRequest Empty(const std::string& type,
                          const std::vector<int64_t>& shape) {
    ModelInferRequest request = Of({});
    auto& input = *request.mutable_inputs(0);
    input.set_datatype(type);
    input.mutable_shape()->Assign(shape.begin(), shape.end());
    request.clear_raw_input_contents();
    return request;
  }

  absl::Status Convert(const ModelInferRequest& request) {
    form_ = 0;
    return converter_.ToStepRequest(request, step_, form_);
  }
  grpc::Status Refusal(const ModelInferRequest& request) {
    const absl::Status status = Convert(request);
    if (status.ok()) return grpc::Status::OK;
    return ToGrpcStatus(ToPublicError(status));
  }
  // Of a good request that `spoil` has had.
  grpc::Status RefusalOf(const std::function<void(ModelInferRequest&)>& spoil) {
    ModelInferRequest request = Of({1, 2});
    spoil(request);
    return Refusal(request);
  }

  const std::shared_ptr<const Model> model_ =
      TinyModel(TinyModelOptions{}).Load();
  const InferConverter converter_{*model_, EngineOptions{}, kMessageBytes};
  StepRequest step_;
  uint32_t form_ = 0;
};

TEST_F(InferRequestTest, TokensComeInEachOfTheForms) {
  ASSERT_TRUE(Convert(Of({1, 2, 3})).ok());
  EXPECT_THAT(step_.tokens, ElementsAre(1, 2, 3));
  ModelInferRequest request = Empty("INT64", {1, 2});
  request.add_raw_input_contents(Raw<int64_t>({4, 5}));
  ASSERT_TRUE(Convert(request).ok());
  EXPECT_THAT(step_.tokens, ElementsAre(4, 5));
  request = Empty("UINT32", {1});
  request.add_raw_input_contents(Raw<uint32_t>({6}));
  ASSERT_TRUE(Convert(request).ok());
  EXPECT_THAT(step_.tokens, ElementsAre(6));
  request = Empty("INT32", {2});
  request.mutable_inputs(0)->mutable_contents()->add_int_contents(7);
  request.mutable_inputs(0)->mutable_contents()->add_int_contents(8);
  ASSERT_TRUE(Convert(request).ok());
  EXPECT_THAT(step_.tokens, ElementsAre(7, 8));
  request = Empty("INT64", {1});
  request.mutable_inputs(0)->mutable_contents()->add_int64_contents(9);
  ASSERT_TRUE(Convert(request).ok());
  EXPECT_THAT(step_.tokens, ElementsAre(9));
  request = Empty("UINT32", {1});
  request.mutable_inputs(0)->mutable_contents()->add_uint_contents(10);
  ASSERT_TRUE(Convert(request).ok());
  EXPECT_THAT(step_.tokens, ElementsAre(10));
}

TEST_F(InferRequestTest, WhatIsAnsweredIsWhatIsAskedFor) {
  ASSERT_TRUE(Convert(Of({1})).ok());
  EXPECT_EQ(form_, kHasSampledToken | kHasLogits | kHasPosition);
  EXPECT_TRUE(step_.outputs.logits);
  EXPECT_TRUE(step_.outputs.sampling.has_value());
  ModelInferRequest request = Of({1});
  request.add_outputs()->set_name("position");
  ASSERT_TRUE(Convert(request).ok());
  EXPECT_EQ(form_, kHasPosition);
  EXPECT_FALSE(step_.outputs.logits);
  EXPECT_FALSE(step_.outputs.sampling.has_value());
  request.add_outputs()->set_name("logits");
  (*request.mutable_parameters())["triton_enable_empty_final_response"]
      .set_bool_param(true);
  ASSERT_TRUE(Convert(request).ok());
  EXPECT_EQ(form_, kHasPosition | kHasLogits | kSaysFinal);
}

TEST_F(InferRequestTest, ParametersSayWhichSequenceAndHowToDraw) {
  ModelInferRequest request = Of({1});
  request.set_id("name");
  auto& parameters = *request.mutable_parameters();
  parameters["sequence_id"].set_int64_param(42);
  parameters["sequence_start"].set_bool_param(true);
  parameters["sequence_end"].set_bool_param(false);
  parameters["timeout"].set_int64_param(1500);
  parameters["priority"].set_uint64_param(0);
  parameters["expected_position"].set_int64_param(0);
  parameters["temperature"].set_double_param(0.5);
  parameters["top_k"].set_int64_param(40);
  parameters["top_p"].set_double_param(0.9);
  parameters["min_p"].set_int64_param(0);
  parameters["repetition_penalty"].set_double_param(1.1);
  parameters["presence_penalty"].set_double_param(0.1);
  parameters["frequency_penalty"].set_double_param(0.2);
  parameters["penalty_window"].set_uint64_param(32);
  parameters["seed"].set_uint64_param(std::numeric_limits<uint64_t>::max());
  ASSERT_TRUE(Convert(request).ok()) << Convert(request);
  EXPECT_EQ(step_.session, "sequence-42");
  EXPECT_TRUE(step_.starts);
  EXPECT_FALSE(step_.ends);
  EXPECT_EQ(step_.request_id, "name");
  EXPECT_EQ(step_.expected_position, 0u);
  EXPECT_EQ(step_.timeout, absl::Microseconds(1500));
  const SamplingParams& sampling = *step_.outputs.sampling;
  EXPECT_EQ(sampling.temperature, 0.5);
  EXPECT_EQ(sampling.top_k, 40u);
  EXPECT_EQ(sampling.top_p, 0.9);
  EXPECT_EQ(sampling.min_p, 0);
  EXPECT_EQ(sampling.repetition_penalty, 1.1);
  EXPECT_EQ(sampling.presence_penalty, 0.1);
  EXPECT_EQ(sampling.frequency_penalty, 0.2);
  EXPECT_EQ(sampling.penalty_window, 32u);
  EXPECT_EQ(sampling.seed, std::numeric_limits<uint64_t>::max());
  // Nothing of one request is left for the next.
  ASSERT_TRUE(Convert(Of({1})).ok());
  EXPECT_EQ(step_.session, "");
  EXPECT_FALSE(step_.starts);
  EXPECT_FALSE(step_.expected_position.has_value());
  EXPECT_EQ(step_.timeout, absl::InfiniteDuration());
  EXPECT_EQ(step_.outputs.sampling->temperature, 1);
}

TEST_F(InferRequestTest, EverySequenceHasASessionThatCanBeNamed) {
  const std::string hash = "sequence--";
  EXPECT_EQ(SequenceSession(UINT64_MAX), "sequence-18446744073709551615");
  EXPECT_EQ(*SequenceSession("chat-7"), "sequence-chat-7");
  EXPECT_EQ(*SequenceSession(std::string(54, 'a')),
            "sequence-" + std::string(54, 'a'));
  // Of what is no session's id, or too long, the digest.
  for (const std::string& id :
       {std::string(55, 'a'), std::string("Chat 7"), std::string("-a"),
        std::string("\xff\0", 2), std::string(1024, 'x')}) {
    const std::string session = *SequenceSession(id);
    EXPECT_EQ(session.size(), hash.size() + 32) << session;
    EXPECT_EQ(session.substr(0, hash.size()), hash);
    EXPECT_NE(session, *SequenceSession(id + "b"));
  }
  // echo -n 'Chat 7' | sha256sum
  EXPECT_EQ(*SequenceSession("Chat 7"),
            "sequence--415c3e0e38802b9c3f39b9e63dedfb12");
  EXPECT_EQ(SequenceOf("sequence-chat-7"), "chat-7");
  ModelInferRequest request = Of({1});
  auto& id = (*request.mutable_parameters())["sequence_id"];
  id.set_uint64_param(UINT64_MAX);
  ASSERT_TRUE(Convert(request).ok());
  EXPECT_EQ(step_.session, "sequence-18446744073709551615");
  id.set_string_param("chat-7");
  ASSERT_TRUE(Convert(request).ok());
  EXPECT_EQ(step_.session, "sequence-chat-7");
  // These name none.
  id.set_int64_param(0);
  ASSERT_TRUE(Convert(request).ok());
  EXPECT_EQ(step_.session, "");
  id.set_string_param("");
  ASSERT_TRUE(Convert(request).ok());
  EXPECT_EQ(step_.session, "");
}

TEST_F(InferRequestTest, FaultsOfInputsAreToldByTheirField) {
  const auto input = [](ModelInferRequest & request) -> auto& {
    return *request.mutable_inputs(0);
  };
  EXPECT_THAT(RefusalOf([](auto& request) { request.clear_inputs(); }),
              IsAboutField("inputs"));
  EXPECT_THAT(RefusalOf([&](auto& r) { input(r).set_name("text"); }),
              IsAboutField("inputs.name"));
  EXPECT_THAT(RefusalOf([&](auto& r) { *r.add_inputs() = input(r); }),
              IsAboutField("inputs"));
  EXPECT_THAT(RefusalOf([&](auto& r) { input(r).set_datatype("FP32"); }),
              IsAboutField("inputs.tokens.datatype"));
  EXPECT_THAT(RefusalOf([&](auto& r) {
                (*input(r).mutable_parameters())["shared_memory_region"]
                    .set_string_param("a");
              }),
              IsAboutField("inputs.tokens.parameters"));
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{},
                                         {0},
                                         {-1},
                                         {2, 1},
                                         {1, 1, 2},
                                         {1, 0},
                                         std::vector<int64_t>(1000, 1)}) {
    EXPECT_THAT(RefusalOf([&](auto& r) {
                  input(r).mutable_shape()->Assign(shape.begin(), shape.end());
                }),
                IsAboutField("inputs.tokens.shape"));
  }
  // Larger than any message, and than any count.
  for (const int64_t count : {int64_t{5000}, INT64_MAX}) {
    EXPECT_THAT(RefusalOf([&](auto& r) { input(r).set_shape(0, count); }),
                IsAboutField("inputs.tokens"));
  }
  EXPECT_THAT(RefusalOf([&](auto& r) { input(r).set_shape(0, 3); }),
              IsAboutField("raw_input_contents[0]"));
  EXPECT_THAT(
      RefusalOf([](auto& r) { r.mutable_raw_input_contents(0)->pop_back(); }),
      IsAboutField("raw_input_contents[0]"));
  EXPECT_THAT(RefusalOf([](auto& r) { r.add_raw_input_contents("abcd"); }),
              IsAboutField("raw_input_contents"));
  EXPECT_THAT(RefusalOf([&](auto& r) {
                input(r).mutable_contents()->add_int_contents(1);
              }),
              IsAboutField("inputs.tokens.contents"));
  EXPECT_THAT(RefusalOf([](auto& r) { r.clear_raw_input_contents(); }),
              IsAboutField("inputs.tokens.contents"));
  ModelInferRequest mixed = Empty("INT64", {1});
  mixed.mutable_inputs(0)->mutable_contents()->add_int64_contents(1);
  mixed.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  EXPECT_THAT(Refusal(mixed), IsAboutField("inputs.tokens.contents"));
}

TEST_F(InferRequestTest, TokensOutOfRangeAreToldWhateverTheirType) {
  const auto vocab = static_cast<int64_t>(model_->description().vocab_size);
  for (const int64_t token :
       {int64_t{-1}, vocab, int64_t{1} << 32, INT64_MIN}) {
    ModelInferRequest request = Empty("INT64", {2});
    request.add_raw_input_contents(Raw<int64_t>({1, token}));
    const grpc::Status refusal = Refusal(request);
    EXPECT_THAT(refusal, HasReason(ErrorReason::kTokenOutOfRange));
    EXPECT_EQ(ToWireError(refusal).metadata["token"], absl::StrCat(token));
    EXPECT_EQ(ToWireError(refusal).metadata["index"], "1");
  }
  EXPECT_THAT(Refusal(Of({-1})), HasReason(ErrorReason::kTokenOutOfRange));
  ModelInferRequest request = Empty("UINT32", {1});
  request.add_raw_input_contents(Raw<uint32_t>({UINT32_MAX}));
  EXPECT_THAT(Refusal(request), HasReason(ErrorReason::kTokenOutOfRange));
}

TEST_F(InferRequestTest, FaultsOfOutputsAndNamesAreToldByTheirField) {
  EXPECT_THAT(RefusalOf([](auto& r) { r.add_outputs()->set_name("text"); }),
              IsAboutField("outputs.name"));
  EXPECT_THAT(RefusalOf([](auto& r) {
                r.add_outputs()->set_name("logits");
                r.add_outputs()->set_name("logits");
              }),
              IsAboutField("outputs.name"));
  EXPECT_THAT(RefusalOf([](auto& r) {
                r.add_outputs()->set_name("logits");
                (*r.mutable_outputs(0)->mutable_parameters())["classification"]
                    .set_int64_param(3);
              }),
              IsAboutField("outputs.logits.parameters"));
  EXPECT_THAT(RefusalOf([](auto& r) { r.set_id(std::string(129, 'i')); }),
              IsAboutField("id"));
  EXPECT_THAT(RefusalOf([](auto& r) { r.set_model_name("other"); }),
              HasReason(ErrorReason::kModelNotFound));
  EXPECT_THAT(RefusalOf([](auto& r) { r.set_model_version("2"); }),
              HasReason(ErrorReason::kModelNotFound));
  EXPECT_THAT(RefusalOf([](auto& r) { r.set_model_version("1"); }), IsOk());
  const InferConverter small(*model_, EngineOptions{}, 600);
  EXPECT_THAT(
      ToGrpcStatus(ToPublicError(small.ToStepRequest(Of({1}), step_, form_))),
      HasReason(ErrorReason::kMessageTooLarge));
}

TEST_F(InferRequestTest, FaultsOfParametersAreToldByTheirName) {
  const auto refused = [this](const std::string& name, const auto& set) {
    return RefusalOf([&](auto& r) { set((*r.mutable_parameters())[name]); });
  };
  const auto text = [](auto& to) { to.set_string_param("a"); };
  const auto minus = [](auto& to) { to.set_int64_param(-1); };
  const auto truth = [](auto& to) { to.set_bool_param(true); };
  const auto nothing = [](auto&) {};
  EXPECT_THAT(refused("temprature", truth), IsAboutField("parameters"));
  for (const std::string name : {"sequence_start", "sequence_end"}) {
    EXPECT_THAT(refused(name, text), IsAboutField("parameters." + name));
    EXPECT_THAT(refused(name, truth), IsAboutField("parameters.sequence_id"));
  }
  for (const std::string name :
       {"sequence_id", "timeout", "priority", "expected_position", "seed",
        "penalty_window", "top_k"}) {
    EXPECT_THAT(refused(name, minus), IsAboutField("parameters." + name));
    EXPECT_THAT(refused(name, truth), IsAboutField("parameters." + name));
    EXPECT_THAT(refused(name, nothing), IsAboutField("parameters." + name));
  }
  EXPECT_THAT(refused("priority", [](auto& to) { to.set_uint64_param(1); }),
              IsAboutField("parameters.priority"));
  EXPECT_THAT(
      refused("sequence_id",
              [](auto& to) { to.set_string_param(std::string(1025, 'a')); }),
      IsAboutField("parameters.sequence_id"));
  for (const std::string name :
       {"temperature", "top_p", "min_p", "repetition_penalty"}) {
    EXPECT_THAT(refused(name, text), IsAboutField("parameters." + name));
    EXPECT_THAT(refused(name, minus), IsAboutField("parameters." + name));
  }
  // Of no sequence there is no position to expect.
  EXPECT_THAT(
      refused("expected_position", [](auto& to) { to.set_int64_param(3); }),
      IsAboutField("parameters.expected_position"));
  // What nothing is drawn for.
  EXPECT_THAT(RefusalOf([](auto& r) {
                r.add_outputs()->set_name("logits");
                (*r.mutable_parameters())["top_k"].set_int64_param(3);
              }),
              IsAboutField("outputs"));
}

}  // namespace
}  // namespace steadystate::infer_request_test
