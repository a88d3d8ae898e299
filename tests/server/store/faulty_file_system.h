#ifndef STEADYSTATE_TESTS_SERVER_STORE_FAULTY_FILE_SYSTEM_H_
#define STEADYSTATE_TESTS_SERVER_STORE_FAULTY_FILE_SYSTEM_H_

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rocksdb/file_system.h"
#include "server/base/mutex.h"

namespace steadystate {

// What a disk does that is full, or broken. Thread-safe.
struct Faults {
  std::atomic<bool> full = false;
  std::atomic<bool> broken = false;

  // Of the calls on snapshots' files (below) the one with this number fails,
  // counted from now on.
  void FailCall(int number) {
    const MutexLock lock(mutex);
    calls.clear();
    failing = number;
  }
  // Those calls, and the syncs of the database's log: what each does, and to
  // which file.
  std::vector<std::string> Calls() const {
    const MutexLock lock(mutex);
    return calls;
  }

  rocksdb::IOStatus Next(const char* what, const std::string& path) {
    const bool of_snapshots = absl::StrContains(path, "/snapshots");
    const MutexLock lock(mutex);
    if (of_snapshots || (absl::EndsWith(path, ".log") && *what == 's')) {
      calls.push_back(
          absl::StrCat(what, " ", path.substr(path.rfind('/') + 1)));
    }
    if (of_snapshots && failing == static_cast<int>(calls.size())) {
      return rocksdb::IOStatus::IOError("input/output error");
    }
    return rocksdb::IOStatus::OK();
  }
  // The same for what writes bytes.
  rocksdb::IOStatus NextWrite(const char* what, const std::string& path) {
    if (full) return rocksdb::IOStatus::NoSpace("no space left");
    if (broken) return rocksdb::IOStatus::IOError("input/output error");
    return Next(what, path);
  }

  mutable Mutex mutex;
  int failing ABSL_GUARDED_BY(mutex) = 0;
  std::vector<std::string> calls ABSL_GUARDED_BY(mutex);
};

class FaultyFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  FaultyFile(std::unique_ptr<rocksdb::FSWritableFile> file, std::string path,
             std::shared_ptr<Faults> faults)
      : FSWritableFileOwnerWrapper(std::move(file)),
        path_(std::move(path)),
        faults_(std::move(faults)) {}
  using FSWritableFileOwnerWrapper::Append;
  rocksdb::IOStatus Append(const rocksdb::Slice& data,
                           const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* context) override {
    const rocksdb::IOStatus fault = faults_->NextWrite("append", path_);
    if (fault.ok()) {
      return FSWritableFileOwnerWrapper::Append(data, options, context);
    }
    // Half of it gets there.
    FSWritableFileOwnerWrapper::Append({data.data(), data.size() / 2}, options,
                                       context)
        .PermitUncheckedError();
    return fault;
  }
  rocksdb::IOStatus Sync(const rocksdb::IOOptions& options,
                         rocksdb::IODebugContext* context) override {
    const rocksdb::IOStatus fault = faults_->NextWrite("sync", path_);
    return fault.ok() ? FSWritableFileOwnerWrapper::Sync(options, context)
                      : fault;
  }

 private:
  const std::string path_;
  const std::shared_ptr<Faults> faults_;
};

class FaultyDirectory final : public rocksdb::FSDirectoryWrapper {
 public:
  FaultyDirectory(std::unique_ptr<rocksdb::FSDirectory> directory,
                  std::string path, std::shared_ptr<Faults> faults)
      : FSDirectoryWrapper(std::move(directory)),
        path_(std::move(path)),
        faults_(std::move(faults)) {}
  rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options,
                          rocksdb::IODebugContext* context) override {
    const rocksdb::IOStatus fault = faults_->Next("sync", path_);
    return fault.ok() ? FSDirectoryWrapper::Fsync(options, context) : fault;
  }

 private:
  const std::string path_;
  const std::shared_ptr<Faults> faults_;
};

// The machine's files, with faults.
class FaultyFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit FaultyFileSystem(std::shared_ptr<Faults> faults)
      : FileSystemWrapper(rocksdb::FileSystem::Default()),
        faults_(std::move(faults)) {}
  const char* Name() const override { return "FaultyFileSystem"; }
  rocksdb::IOStatus NewWritableFile(
      const std::string& name, const rocksdb::FileOptions& options,
      std::unique_ptr<rocksdb::FSWritableFile>* file,
      rocksdb::IODebugContext* context) override {
    rocksdb::IOStatus made = faults_->Next("create", name);
    if (!made.ok()) return made;
    made = FileSystemWrapper::NewWritableFile(name, options, file, context);
    if (made.ok()) {
      *file = std::make_unique<FaultyFile>(std::move(*file), name, faults_);
    }
    return made;
  }
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* context) override {
    const rocksdb::IOStatus fault = faults_->Next("rename to", to);
    return fault.ok()
               ? FileSystemWrapper::RenameFile(from, to, options, context)
               : fault;
  }
  rocksdb::IOStatus DeleteFile(const std::string& name,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* context) override {
    const rocksdb::IOStatus fault = faults_->Next("delete", name);
    return fault.ok() ? FileSystemWrapper::DeleteFile(name, options, context)
                      : fault;
  }
  rocksdb::IOStatus NewDirectory(
      const std::string& name, const rocksdb::IOOptions& options,
      std::unique_ptr<rocksdb::FSDirectory>* directory,
      rocksdb::IODebugContext* context) override {
    const rocksdb::IOStatus made =
        FileSystemWrapper::NewDirectory(name, options, directory, context);
    if (made.ok()) {
      *directory = std::make_unique<FaultyDirectory>(std::move(*directory),
                                                     name, faults_);
    }
    return made;
  }
  rocksdb::IOStatus NewSequentialFile(
      const std::string& name, const rocksdb::FileOptions& options,
      std::unique_ptr<rocksdb::FSSequentialFile>* file,
      rocksdb::IODebugContext* context) override {
    const rocksdb::IOStatus fault = faults_->Next("open", name);
    return fault.ok() ? FileSystemWrapper::NewSequentialFile(name, options,
                                                             file, context)
                      : fault;
  }

 private:
  const std::shared_ptr<Faults> faults_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_SERVER_STORE_FAULTY_FILE_SYSTEM_H_
