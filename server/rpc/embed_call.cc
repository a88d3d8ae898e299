#include "server/rpc/embed_call.h"

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "server/base/status_macros.h"
#include "server/rpc/answer.h"
#include "server/rpc/connection.h"
#include "server/rpc/answer_size.h"
#include "server/rpc/result_stream-inl.h"

namespace steadystate {

grpc::ServerWriteReactor<v1::EmbedResponse>* StartEmbed(
    ServiceContext& services, grpc::CallbackServerContext& context,
    const v1::EmbedRequest& request) {
  using Stream = ResultStream<v1::EmbedResponse, EmbeddedRow, EmbedSummary>;
  return Stream::Start(
      "steadystate.v1.GenerationService/Embed", services, context,
      request.text().size(),
      [&services, &context, &request](
          const std::shared_ptr<Stream>& stream) -> absl::StatusOr<RequestId> {
        STEADYSTATE_ASSIGN_OR_RETURN(
            EmbedRequest embed, services.converter.ToEmbedRequest(request));
        embed.writer = services.engine.NewWriter();
        embed.client = ConnectionOf(context);
        embed.deadline = stream->deadline();
        stream->ExpectPieces(PieceMemory(embed, services.engine));
        return services.engine.Embed(std::move(embed), stream);
      },
      [](const EmbedSummary& summary, v1::EmbedResponse& to) {
        ToProto(summary, to);
      });
}

}  // namespace steadystate
