#ifndef STEADYSTATE_TESTS_SERVER_STORE_ROCKS_STORE_HARNESS_H_
#define STEADYSTATE_TESTS_SERVER_STORE_ROCKS_STORE_HARNESS_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/store/file_calls.h"
#include "server/store/rocks_store.h"
#include "tests/testing/temp_directory.h"

namespace steadystate {

inline constexpr size_t kSnapshotBytes = 20'000;

inline StoredSession MakeSession(uint64_t i) {
  StoredSession session;
  session.card.uid = {i, ~i};
  session.card.id = absl::StrCat("s", i);
  session.card.owner = i % 2 == 0 ? "" : "somebody";
  session.card.labels = {{"number", absl::StrCat(i)}};
  session.card.ttl = absl::Minutes(5);
  session.card.create_time = absl::FromUnixNanos(1'700'000'000'123'456'789);
  session.card.last_step_time = session.card.create_time + absl::Seconds(i);
  session.position = 3 * i;
  session.other_numerics = i % 3 == 0;
  session.taken_back = i % 2 == 0;
  session.durability = static_cast<Durability>(i % 4);
  session.round = 7 * i;
  session.repeatable_from = 2 * i;
  if (i % 2 == 1) session.prefix = {i, 5 * i};
  if (i % 3 == 1) {
    session.tail = {.end = 4 * i,
                    .numerics = 6 * i,
                    .through_round = 8 * i,
                    .damaged = i % 2 == 0,
                    .remade = i % 4 == 1};
  }
  return session;
}

inline void ExpectSame(const std::optional<StoredTail>& found,
                       const std::optional<StoredTail>& expected) {
  ASSERT_EQ(found.has_value(), expected.has_value());
  if (!found.has_value()) return;
  EXPECT_EQ(found->end, expected->end);
  EXPECT_EQ(found->numerics, expected->numerics);
  EXPECT_EQ(found->through_round, expected->through_round);
  EXPECT_EQ(found->damaged, expected->damaged);
  EXPECT_EQ(found->remade, expected->remade);
}

inline std::string MakeSnapshot(uint64_t i, uint64_t version = 0) {
  std::string bytes(kSnapshotBytes, static_cast<char>(i));
  return absl::StrCat(bytes, version);
}

using ById = std::map<std::string, StoredSession>;

inline ById List(SessionStore& store) {
  ById listed;
  const absl::Status status = store.ForEach([&](StoredSession session) {
    listed.emplace(session.card.id, std::move(session));
  });
  EXPECT_TRUE(status.ok()) << status;
  return listed;
}

inline std::string TextOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class RocksStoreTest : public testing::Test {
 protected:
  RocksStoreTest() {
    options_.directory = directory_.path() + "/store";
    options_.model = "tiny";
    options_.fingerprint = "f00d";
  }

  std::unique_ptr<SessionStore> Open() {
    auto store = RocksStore::Open(options_);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  // What opening it says.
  std::string Refusal() {
    const auto store = RocksStore::Open(options_);
    EXPECT_EQ(store.status().code(), absl::StatusCode::kFailedPrecondition);
    return std::string(store.status().message());
  }

  const TempDirectory directory_;
  RocksStoreOptions options_;
};

// What of each directory a loss of power leaves, by the calls that are made.
class PowerCalls final : public FileCalls {
 public:
  int Sync(int file) override {
    const std::string path =
        std::filesystem::read_symlink(absl::StrCat("/proc/self/fd/", file));
    if (std::filesystem::is_directory(path)) {
      std::set<std::string>& names = left[path];
      names.clear();
      for (const auto& entry : std::filesystem::directory_iterator(path)) {
        names.insert(entry.path().filename().string());
      }
    }
    return FileCalls::Sync(file);
  }
  uint64_t Boot() override { return boot; }

  std::map<std::string, std::set<std::string>> left;
  uint64_t boot = 1;
};

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_SERVER_STORE_ROCKS_STORE_HARNESS_H_
