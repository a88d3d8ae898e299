#ifndef STEADYSTATE_SERVER_STORE_STORE_FILES_H_
#define STEADYSTATE_SERVER_STORE_STORE_FILES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rocksdb/file_system.h"
#include "server/base/mutex.h"
#include "server/store/held_directory.h"
#include "server/store/written_note.h"

namespace steadystate {

// The files of a store's directory, as RocksDB gets at them. Nothing is opened,
// made, removed or renamed there while the directory is another one than it was
// (HeldDirectory): RocksDB would do that to what is there now, in the
// background and when it is closed, too. Thread-safe.
class StoreFiles final : public rocksdb::FileSystemWrapper {
 public:
  StoreFiles(const std::string& directory,
             const std::shared_ptr<rocksdb::FileSystem>& files);

  HeldDirectory& directory() { return directory_; }
  // The one that was written last, as far as it is synced.
  Manifest manifest() const ABSL_LOCKS_EXCLUDED(mutex_);

  const char* Name() const override { return "StoreFiles"; }
  rocksdb::IOStatus NewSequentialFile(
      const std::string& name, const rocksdb::FileOptions& options,
      std::unique_ptr<rocksdb::FSSequentialFile>* file,
      rocksdb::IODebugContext* context) override;
  rocksdb::IOStatus NewRandomAccessFile(
      const std::string& name, const rocksdb::FileOptions& options,
      std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
      rocksdb::IODebugContext* context) override;
  rocksdb::IOStatus NewWritableFile(
      const std::string& name, const rocksdb::FileOptions& options,
      std::unique_ptr<rocksdb::FSWritableFile>* file,
      rocksdb::IODebugContext* context) override;
  rocksdb::IOStatus CreateDirIfMissing(
      const std::string& name, const rocksdb::IOOptions& options,
      rocksdb::IODebugContext* context) override;
  rocksdb::IOStatus GetChildren(const std::string& name,
                                const rocksdb::IOOptions& options,
                                std::vector<std::string>* children,
                                rocksdb::IODebugContext* context) override;
  rocksdb::IOStatus DeleteFile(const std::string& name,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* context) override;
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* context) override;
  rocksdb::IOStatus LockFile(const std::string& name,
                             const rocksdb::IOOptions& options,
                             rocksdb::FileLock** lock,
                             rocksdb::IODebugContext* context) override;

 private:
  class ManifestFile;

  rocksdb::IOStatus Check() const;
  void SetManifest(const Manifest& manifest) ABSL_LOCKS_EXCLUDED(mutex_);

  HeldDirectory directory_;
  mutable Mutex mutex_;
  Manifest manifest_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_STORE_STORE_FILES_H_
