#ifndef STEADYSTATE_SERVER_METRICS_TABLE_H_
#define STEADYSTATE_SERVER_METRICS_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace steadystate {

// Every metric family, in the order of the table in table.cc.
enum class MetricId : uint8_t {
  kSessions,
  kCheckpoints,
  kKeptPrompts,
  kSessionsCreated,
  kSessionsEnded,
  kForks,
  kRewinds,
  kSessionEvents,
  kSessionWatchers,
  kUnusable,
  kHibernations,
  kWakeDuration,
  kSlotWaits,
  kDrainEstimate,
  kSnapshotDuration,
  kSnapshotBytes,
  kLogBytes,
  kLogSyncDuration,
  kReplayedTokens,
  kStoreFailuresTotal,
  kSessionLifetime,
  kSessionTokens,
  kStateBytes,
  kStateCapacity,
  kStateBytesPerSession,
  kStatePoolUtilization,
  kAdmissionRejections,
  kRequestsRunning,
  kRequestsWaiting,
  kRequestDuration,
  kGrpcStreams,
  kGrpcConnections,
  kGrpcConnectionsAccepted,
  kGrpcConnectionsRefused,
  kGrpcConnectionsCut,
  kOutboundBytes,
  kOutboundWaiting,
  kLongWorkWaiting,
  kErrors,
  kQueueDuration,
  kTimeToFirstToken,
  kInterTokenLatency,
  kStepDuration,
  kTokens,
  kBatchSize,
  kBatchRows,
  kPositionMismatches,
  kReplays,
  kPrefixes,
  kPrefixTokens,
  kGenerations,
  kPromptLength,
  kGenerationLength,
  kCancellations,
  kStateNonFinite,
  kModelInfo,
  kBuildInfo,
  kModelLoadDuration,
  kReady,
  kHeartbeatAge,
  kComputeThreads,
  kLogLinesDropped,
  kProcessCpu,
  kProcessResident,
  kProcessVirtual,
  kProcessOpenFds,
  kProcessMaxFds,
  kProcessThreads,
  kProcessStartTime,
};

enum class MetricType : uint8_t { kCounter, kGauge, kHistogram };

struct MetricRow {
  MetricId id;
  MetricType type;
  const char* name;
  const char* labels;  // beside `model`, comma-separated, for documentation
  const char* help;
  std::span<const double> buckets;  // upper bounds, for histograms
};

// The table, indexed by MetricId.
std::span<const MetricRow> MetricTable();

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_METRICS_TABLE_H_
