#include "server/rpc/generate_call.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "server/base/status_macros.h"
#include "server/rpc/answer.h"
#include "server/rpc/connection.h"
#include "server/rpc/answer_size.h"
#include "server/rpc/result_stream-inl.h"

namespace steadystate {

grpc::ServerWriteReactor<v1::GenerateResponse>* StartGenerate(
    ServiceContext& services, grpc::CallbackServerContext& context,
    const v1::GenerateRequest& request) {
  using Stream =
      ResultStream<v1::GenerateResponse, GeneratedToken, GenerateSummary>;
  // Drawn with the request's conversion, which comes before the summary.
  const auto seed = std::make_shared<uint64_t>(0);
  return Stream::Start(
      "steadystate.v1.GenerationService/Generate", services, context,
      request.text().size(),
      [&services, &context, &request, seed](
          const std::shared_ptr<Stream>& stream) -> absl::StatusOr<RequestId> {
        STEADYSTATE_ASSIGN_OR_RETURN(
            GenerateRequest generate,
            services.converter.ToGenerateRequest(request));
        generate.writer = services.engine.NewWriter();
        generate.client = ConnectionOf(context);
        generate.deadline = stream->deadline();
        stream->ExpectPieces(PieceMemory(generate));
        *seed = generate.sampling.seed;
        return services.engine.Generate(std::move(generate), stream);
      },
      [seed](const GenerateSummary& summary, v1::GenerateResponse& to) {
        ToProto(summary, *seed, to);
      });
}

}  // namespace steadystate
