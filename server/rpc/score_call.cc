#include "server/rpc/score_call.h"

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "server/base/status_macros.h"
#include "server/rpc/answer.h"
#include "server/rpc/connection.h"
#include "server/rpc/answer_size.h"
#include "server/rpc/result_stream-inl.h"

namespace steadystate {

grpc::ServerWriteReactor<v1::ScoreResponse>* StartScore(
    ServiceContext& services, grpc::CallbackServerContext& context,
    const v1::ScoreRequest& request) {
  using Stream = ResultStream<v1::ScoreResponse, ScoredToken, ScoreSummary>;
  return Stream::Start(
      "steadystate.v1.GenerationService/Score", services, context,
      request.text().size(),
      [&services, &context, &request](
          const std::shared_ptr<Stream>& stream) -> absl::StatusOr<RequestId> {
        STEADYSTATE_ASSIGN_OR_RETURN(
            ScoreRequest score, services.converter.ToScoreRequest(request));
        score.writer = services.engine.NewWriter();
        score.client = ConnectionOf(context);
        score.deadline = stream->deadline();
        stream->ExpectPieces(PieceMemory(score, services.engine));
        return services.engine.Score(std::move(score), stream);
      },
      [](const ScoreSummary& summary, v1::ScoreResponse& to) {
        ToProto(summary, to);
      });
}

}  // namespace steadystate
