// Goal: the model is described as it is loaded, and text and tokens translate
// both ways. Method: a real server and client on a tiny model.
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/open_server.h"
#include "tests/server/rpc/wire_error.h"

namespace steadystate::model_service_test {
namespace {

grpc::Status Get(OpenServer& server, const std::string& name,
                 v1::Model* model) {
  Context context;
  v1::GetModelRequest request;
  request.set_name(name);
  return server.models().GetModel(&context, request, model);
}

grpc::Status Tokenize(OpenServer& server, const v1::TokenizeRequest& request,
                      v1::TokenizeResponse* response) {
  Context context;
  return server.models().Tokenize(&context, request, response);
}

grpc::Status Detokenize(OpenServer& server,
                        const v1::DetokenizeRequest& request,
                        v1::DetokenizeResponse* response) {
  Context context;
  return server.models().Detokenize(&context, request, response);
}

TEST(ModelServiceTest, ModelIsDescribed) {
  OpenServerOptions options;
  options.model.softmax_layer = 1;
  options.model.max_position_embeddings = 40;
  options.model.eos_tokens = {3, 4};
  OpenServer server(options);
  v1::Model model;
  ASSERT_THAT(Get(server, "models/-", &model), IsOk());
  const ModelDescription& expected = server.model().description();
  EXPECT_EQ(model.name(), "models/" + expected.id);
  EXPECT_EQ(model.family(), "gla");
  EXPECT_EQ(model.fingerprint().size(), 64u);
  EXPECT_EQ(model.vocab_size(), 256u);
  EXPECT_EQ(model.hidden_size(), 32u);
  EXPECT_EQ(model.layer_count(), 2u);
  EXPECT_EQ(model.softmax_layer_count(), 1u);
  EXPECT_EQ(model.parameter_count(), expected.parameters);
  EXPECT_EQ(model.session_bytes(), server.session_bytes());
  EXPECT_EQ(model.context_cap(), 40u);
  EXPECT_EQ(model.weight_dtype(), "f32");
  EXPECT_EQ(model.state_dtype(), "f32");
  EXPECT_EQ(model.tokenizer(), "bytes");
  ASSERT_EQ(model.eos_tokens_size(), 2);
  EXPECT_EQ(model.eos_tokens(1), 4);
  EXPECT_FALSE(model.execution().isa().empty());
  EXPECT_FALSE(model.execution().onednn_version().empty());
  EXPECT_FALSE(model.execution().kernel_target().empty());
  EXPECT_EQ(model.execution().threads(), 1u);
  EXPECT_GT(model.execution().tiles_size(), 0);
  EXPECT_EQ(model.norm(), "rmsnorm");
  EXPECT_EQ(model.norm_eps(), 1e-6);
  EXPECT_FALSE(model.bidirectional());
  bool grows = false;
  ASSERT_GT(model.state_slots_size(), 1);
  for (const v1::Model::StateSlot& slot : model.state_slots()) {
    EXPECT_EQ(slot.bytes(),
              4 * std::accumulate(slot.shape().begin(), slot.shape().end(),
                                  uint64_t{1}, std::multiplies<>()));
    grows = grows || slot.grows();
  }
  EXPECT_TRUE(grows);
}

TEST(ModelServiceTest, StateIsSplitByKindOfLayer) {
  OpenServerOptions options;
  options.model.layers = 4;
  options.model.softmax_layer = 1;
  options.model.max_position_embeddings = 40;
  OpenServer server(options);
  v1::Model model;
  ASSERT_THAT(Get(server, "models/-", &model), IsOk());
  ASSERT_EQ(model.layer_kinds_size(), 2);
  const v1::Model::LayerKind& gla = model.layer_kinds(0);
  EXPECT_EQ(gla.kind(), "gla");
  EXPECT_EQ(gla.layer_count(), 3u);
  EXPECT_EQ(gla.bytes_per_token(), 0u);
  EXPECT_EQ(gla.cap_tokens(), 0u);
  EXPECT_EQ(gla.bytes_at_cap(), gla.fixed_bytes());
  const v1::Model::LayerKind& softmax = model.layer_kinds(1);
  EXPECT_EQ(softmax.kind(), "softmax");
  EXPECT_EQ(softmax.layer_count(), 1u);
  EXPECT_EQ(softmax.fixed_bytes(), 0u);
  // A key and a value of the hidden width.
  EXPECT_EQ(softmax.bytes_per_token(), 2 * 32 * 4u);
  EXPECT_EQ(softmax.cap_tokens(), 40u);
  EXPECT_EQ(softmax.bytes_at_cap(), 40 * 2 * 32 * 4u);
  EXPECT_EQ(
      gla.bytes_at_cap() + softmax.bytes_at_cap() + model.bookkeeping_bytes(),
      model.session_bytes());
  uint64_t slots = 0;
  for (const v1::Model::StateSlot& slot : model.state_slots()) {
    EXPECT_EQ(slot.dtype(), "f32");
    slots += slot.bytes();
  }
  EXPECT_LE(slots, gla.bytes_at_cap() + softmax.bytes_at_cap());
}

TEST(ModelServiceTest, AWindowIsAKindOfItsOwn) {
  OpenServerOptions options;
  options.model.softmax_layer = 0;
  options.model.softmax_window = 3;
  OpenServer server(options);
  v1::Model model;
  ASSERT_THAT(Get(server, "models/-", &model), IsOk());
  ASSERT_EQ(model.layer_kinds_size(), 2);
  EXPECT_EQ(model.layer_kinds(0).kind(), "softmax window");
  EXPECT_EQ(model.layer_kinds(0).bytes_per_token(), 0u);
  EXPECT_EQ(model.layer_kinds(0).fixed_bytes(), 3 * 2 * 32 * 4u);
}

TEST(ModelServiceTest, ModelsAreFoundByNameOnly) {
  OpenServer server;
  v1::Model model;
  const std::string name = "models/" + server.model().description().id;
  EXPECT_THAT(Get(server, name, &model), IsOk());
  EXPECT_THAT(Get(server, "models/other", &model),
              HasReason(ErrorReason::kModelNotFound));
  for (const char* bad : {"", "models/", "other", "models"}) {
    EXPECT_THAT(Get(server, bad, &model), IsAboutField("name"));
  }
}

TEST(ModelServiceTest, OneModelIsListed) {
  OpenServer server;
  Context context;
  v1::ListModelsResponse response;
  ASSERT_THAT(server.models().ListModels(&context, {}, &response), IsOk());
  ASSERT_EQ(response.models_size(), 1);
  EXPECT_TRUE(response.next_page_token().empty());
  v1::Model model;
  ASSERT_THAT(Get(server, "models/-", &model), IsOk());
  EXPECT_EQ(response.models(0).SerializeAsString().size(),
            model.SerializeAsString().size());

  v1::ListModelsRequest request;
  request.set_page_size(-1);
  Context second;
  EXPECT_THAT(server.models().ListModels(&second, request, &response),
              IsAboutField("page_size"));
  request.set_page_size(1);
  request.set_page_token("x");
  Context third;
  EXPECT_THAT(server.models().ListModels(&third, request, &response),
              HasReason(ErrorReason::kInvalidPageToken));
}

TEST(ModelServiceTest, TextTranslatesBothWays) {
  OpenServer server;
  v1::TokenizeRequest text;
  text.set_text("h\xC3\xA9llo");
  v1::TokenizeResponse tokens;
  ASSERT_THAT(Tokenize(server, text, &tokens), IsOk());
  ASSERT_EQ(tokens.tokens_size(), 6);
  v1::DetokenizeRequest back;
  *back.mutable_tokens() = tokens.tokens();
  v1::DetokenizeResponse response;
  ASSERT_THAT(Detokenize(server, back, &response), IsOk());
  EXPECT_EQ(response.text(), text.text());

  text.set_text("");
  ASSERT_THAT(Tokenize(server, text, &tokens), IsOk());
  EXPECT_EQ(tokens.tokens_size(), 0);
}

v1::TextPart Part(const std::string& text, bool literal) {
  v1::TextPart part;
  part.set_text(text);
  part.set_literal(literal);
  return part;
}

TEST(ModelServiceTest, PartsAreOneText) {
  OpenServer server;
  v1::TokenizeRequest request;
  *request.add_parts() = Part("ab", false);
  *request.add_parts() = Part("", true);
  *request.add_parts() = Part("c", true);
  v1::TokenizeResponse tokens;
  ASSERT_THAT(Tokenize(server, request, &tokens), IsOk());
  ASSERT_EQ(tokens.tokens_size(), 3);
  EXPECT_EQ(tokens.tokens(2), 'c');
}

TEST(ModelServiceTest, PartsAreChecked) {
  OpenServer server;
  v1::TokenizeResponse tokens;
  v1::TokenizeRequest request;
  request.set_text("a");
  *request.add_parts() = Part("b", true);
  grpc::Status status = Tokenize(server, request, &tokens);
  EXPECT_THAT(status, HasReason(ErrorReason::kInvalidArgument));
  request.clear_text();
  while (request.parts_size() < 4096) *request.add_parts() = Part("b", true);
  EXPECT_THAT(Tokenize(server, request, &tokens), IsOk());
  *request.add_parts() = Part("", false);
  status = Tokenize(server, request, &tokens);
  EXPECT_THAT(status, HasReason(ErrorReason::kInvalidArgument));
  EXPECT_THAT(status, IsAboutField("parts"));
  EXPECT_NE(status.error_message().find("4097"), std::string::npos);
  EXPECT_NE(status.error_message().find("at most 4096"), std::string::npos);
}

TEST(ModelServiceTest, BytesThatAreNoTextAreReplaced) {
  OpenServer server;
  v1::DetokenizeRequest request;
  for (const int32_t byte : {0x61, 0xFF, 0x62, 0xE2, 0x82}) {
    request.add_tokens(byte);
  }
  v1::DetokenizeResponse response;
  ASSERT_THAT(Detokenize(server, request, &response), IsOk());
  EXPECT_EQ(response.text(),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD");
}

TEST(ModelServiceTest, TokensAreChecked) {
  OpenServer server;
  v1::DetokenizeRequest request;
  request.add_tokens(1);
  request.add_tokens(256);
  v1::DetokenizeResponse response;
  const grpc::Status status = Detokenize(server, request, &response);
  EXPECT_THAT(status, HasReason(ErrorReason::kTokenOutOfRange));
  EXPECT_EQ(ToWireError(status).metadata["index"], "1");
  request.set_model("models/other");
  EXPECT_THAT(Detokenize(server, request, &response),
              HasReason(ErrorReason::kModelNotFound));
}

TEST(ModelServiceTest, ModelWithoutTokenizerSaysSo) {
  OpenServerOptions options;
  options.model.byte_tokenizer = false;
  OpenServer server(options);
  v1::TokenizeResponse tokens;
  v1::DetokenizeResponse text;
  EXPECT_THAT(Tokenize(server, {}, &tokens),
              HasReason(ErrorReason::kTokenizerUnavailable));
  v1::TokenizeRequest parts;
  *parts.add_parts() = Part("a", true);
  EXPECT_THAT(Tokenize(server, parts, &tokens),
              HasReason(ErrorReason::kTokenizerUnavailable));
  EXPECT_THAT(Detokenize(server, {}, &text),
              HasReason(ErrorReason::kTokenizerUnavailable));
  v1::Model model;
  ASSERT_THAT(Get(server, "models/-", &model), IsOk());
  EXPECT_TRUE(model.tokenizer().empty());
}

TEST(ModelServiceTest, AnswerLargerThanAMessageIsRefused) {
  OpenServerOptions options;
  options.server.max_message_bytes = 64 << 10;
  OpenServer server(options);
  v1::TokenizeRequest request;
  // Two bytes of text, four of token ids each.
  for (int i = 0; i < 25'000; ++i) request.mutable_text()->append("\xC3\xA9");
  v1::TokenizeResponse tokens;
  const grpc::Status status = Tokenize(server, request, &tokens);
  EXPECT_THAT(status, HasReason(ErrorReason::kMessageTooLarge));
  EXPECT_EQ(ToWireError(status).metadata["limit"], absl::StrCat(64 << 10));
  v1::TokenizeRequest parts;
  *parts.add_parts() = Part(request.text(), true);
  EXPECT_THAT(Tokenize(server, parts, &tokens),
              HasReason(ErrorReason::kMessageTooLarge));
}

}  // namespace
}  // namespace steadystate::model_service_test
