// Goal: Embed streams hidden vectors in bounded messages, both ways, and says
// what it cannot do. Method: a real server and client on a tiny model and on a
// golden checkpoint of linear attention.
#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/server/rpc/open_server.h"
#include "tests/server/rpc/wire_error.h"
#include "tests/testing/npy.h"
#include "tests/testing/relative_rms.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::embed_test {
namespace {

constexpr char kGolden[] =
    STEADYSTATE_SOURCE_DIR "/tests/golden/linear_attn-elu-norm";

struct Embedded {
  std::vector<v1::EmbedResponse::Row> rows;
  v1::EmbedResponse::Summary summary;
  int summaries = 0;
  size_t largest_message = 0;
  grpc::Status status;
};

Embedded Embed(OpenServer& server, const v1::EmbedRequest& request) {
  Embedded embedded;
  Context context;
  const auto stream = server.generation().Embed(&context, request);
  v1::EmbedResponse response;
  while (stream->Read(&response)) {
    EXPECT_EQ(embedded.summaries, 0) << "a message after the summary";
    for (const auto& row : response.rows()) embedded.rows.push_back(row);
    if (response.has_summary()) {
      ++embedded.summaries;
      embedded.summary = response.summary();
    }
    embedded.largest_message =
        std::max(embedded.largest_message, response.ByteSizeLong());
  }
  embedded.status = stream->Finish();
  return embedded;
}

v1::EmbedRequest EmbedOf(const std::string& session,
                         const std::vector<int32_t>& tokens) {
  v1::EmbedRequest request;
  request.set_session(session);
  request.mutable_tokens()->mutable_ids()->Assign(tokens.begin(), tokens.end());
  return request;
}

TEST(EmbedTest, RowsAreTheHiddenStatesOfSteps) {
  OpenServer server;
  const std::vector<int32_t> tokens = SomeTokens(100, 5);
  const Embedded embedded = Embed(server, EmbedOf("", tokens));
  ASSERT_THAT(embedded.status, IsOk());
  ASSERT_EQ(embedded.rows.size(), tokens.size());
  const std::string session = server.CreateSession();
  for (size_t i = 0; i < tokens.size(); ++i) {
    v1::StepRequest step = StepOf(session, {tokens[i]});
    step.mutable_output()->set_hidden(true);
    const v1::StepResponse expected = server.Step(step);
    const auto& row = embedded.rows[i];
    EXPECT_EQ(row.position(), i + 1);
    EXPECT_LE(RelativeRms(row.hidden(), expected.hidden()), kCutsAgree)
        << "at token " << i;
  }
  EXPECT_EQ(embedded.summaries, 1);
  EXPECT_EQ(embedded.summary.tokens(), tokens.size());
  EXPECT_EQ(embedded.summary.position(), tokens.size());
  server.WaitForMetric(
      "steadystate_request_duration_seconds_count{code=\"OK\",method="
      "\"steadystate.v1.GenerationService/Embed\"}",
      1);
}

TEST(EmbedTest, PoolingAndInputsOfEveryKind) {
  OpenServer server;
  v1::EmbedRequest text;
  text.set_text("abc");
  text.set_model("models/-");
  EXPECT_THAT(Embed(server, text).status,
              HasReason(ErrorReason::kModelNotFound));
  text.set_model("models/" + server.model().description().id);
  const Embedded all = Embed(server, text);
  ASSERT_THAT(all.status, IsOk());
  ASSERT_EQ(all.rows.size(), 3u);
  text.set_pooling(v1::LAST);
  const Embedded last = Embed(server, text);
  ASSERT_EQ(last.rows.size(), 1u);
  EXPECT_EQ(last.rows[0].SerializeAsString(), all.rows[2].SerializeAsString());
  text.set_pooling(v1::MEAN);
  const Embedded mean = Embed(server, text);
  ASSERT_EQ(mean.rows.size(), 1u);
  EXPECT_NEAR(
      mean.rows[0].hidden(0),
      (all.rows[0].hidden(0) + all.rows[1].hidden(0) + all.rows[2].hidden(0)) /
          3,
      1e-5);
  v1::EmbedRequest vectors;
  for (int i = 0; i < 64; ++i) {
    vectors.mutable_embeddings()->add_values(0.01f * static_cast<float>(i));
  }
  EXPECT_EQ(Embed(server, vectors).rows.size(), 2u);
}

TEST(EmbedTest, ASessionIsAdvancedOnlyIfNamed) {
  OpenServer server;
  const std::string session = server.CreateSession();
  v1::EmbedRequest request = EmbedOf(session, {3, 4, 5});
  request.set_expected_position(0);
  ASSERT_THAT(Embed(server, request).status, IsOk());
  EXPECT_EQ(server.PositionOf(session), 3u);
  EXPECT_THAT(Embed(server, request).status,
              HasReason(ErrorReason::kPositionMismatch));
  ASSERT_THAT(Embed(server, EmbedOf("", {3, 4, 5})).status, IsOk());
  EXPECT_EQ(server.PositionOf(session), 3u);
}

TEST(EmbedTest, BidirectionalAgreesWithTheReference) {
  OpenServerOptions options;
  options.checkpoint = kGolden;
  OpenServer server(options);
  v1::GetModelRequest get;
  get.set_name("models/-");
  v1::Model model;
  Context context;
  ASSERT_THAT(server.models().GetModel(&context, get, &model), IsOk());
  EXPECT_TRUE(model.bidirectional());
  // Sums that only grow.
  EXPECT_EQ(model.state_dtype(), "f64");
  ASSERT_EQ(model.layer_kinds_size(), 1);
  EXPECT_EQ(model.layer_kinds(0).kind(), "linear_attn");
  const auto tokens = nlohmann::json::parse(ReadWholeFile(std::string(kGolden) +
                                                          "/token_ids.json"))
                          .get<std::vector<int32_t>>();
  const NpyArray expected =
      ReadNpy(std::string(kGolden) + "/embed_bidirectional.npy");
  v1::EmbedRequest request = EmbedOf("", tokens);
  request.set_bidirectional(true);
  const Embedded embedded = Embed(server, request);
  ASSERT_THAT(embedded.status, IsOk());
  ASSERT_EQ(embedded.rows.size(), tokens.size());
  double error = 0;
  double size = 0;
  size_t i = 0;
  for (const auto& row : embedded.rows) {
    for (const float value : row.hidden()) {
      error += std::pow(double{value} - expected.values[i], 2);
      size += std::pow(expected.values[i++], 2);
    }
  }
  ASSERT_EQ(i, expected.values.size());
  EXPECT_LE(std::sqrt(error / size), 1e-5);
}

TEST(EmbedTest, ABidirectionalFaultNamesTheFieldOfTheApi) {
  OpenServerOptions options;
  options.checkpoint = kGolden;
  options.engine.max_embed_tokens = 4;
  OpenServer server(options);
  v1::EmbedRequest request = EmbedOf("", {1, 2, 3, 4, 5});
  request.set_bidirectional(true);
  const grpc::Status status = Embed(server, request).status;
  EXPECT_THAT(status, IsAboutField("tokens.ids"));
  EXPECT_EQ(ToWireError(status).metadata["value"], "5");
}

TEST(EmbedTest, MessagesStayBelowOneMebibyte) {
  OpenServer server;
  // 32 numbers a row: 12 MB in all.
  const Embedded embedded = Embed(server, EmbedOf("", SomeTokens(30000, 6)));
  ASSERT_THAT(embedded.status, IsOk());
  EXPECT_EQ(embedded.rows.size(), 30000u);
  EXPECT_LE(embedded.largest_message, size_t{1} << 20);
}

TEST(EmbedTest, ErrorsAreTold) {
  OpenServer server;
  EXPECT_THAT(Embed(server, EmbedOf("sessions/none", {1})).status,
              HasReason(ErrorReason::kSessionNotFound));
  EXPECT_THAT(Embed(server, EmbedOf("", {256})).status,
              HasReason(ErrorReason::kTokenOutOfRange));
  EXPECT_THAT(Embed(server, {}).status, IsAboutField("input"));
  v1::EmbedRequest request = EmbedOf("", {1, 2});
  request.set_expected_position(0);
  EXPECT_THAT(Embed(server, request).status, IsAboutField("expected_position"));
  request.clear_expected_position();
  request.set_pooling(static_cast<v1::Pooling>(7));
  EXPECT_THAT(Embed(server, request).status, IsAboutField("pooling"));
  request.clear_pooling();
  request.set_bidirectional(true);
  const grpc::Status status = Embed(server, request).status;
  EXPECT_THAT(status, HasReason(ErrorReason::kBidirectionalUnsupported));
  EXPECT_EQ(ToWireError(status).metadata["kind"], "gla");
}

}  // namespace
}  // namespace steadystate::embed_test
