#include "server/store/store_files.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/base/mutex.h"
#include "server/store/rocks_look.h"

namespace steadystate {

// A manifest that is written: each change of it is synced.
class StoreFiles::ManifestFile final
    : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  ManifestFile(std::unique_ptr<rocksdb::FSWritableFile> file, uint64_t number,
               StoreFiles& files)
      : FSWritableFileOwnerWrapper(std::move(file)),
        number_(number),
        files_(files) {}

  rocksdb::IOStatus Sync(const rocksdb::IOOptions& options,
                         rocksdb::IODebugContext* context) override {
    const rocksdb::IOStatus synced =
        FSWritableFileOwnerWrapper::Sync(options, context);
    if (synced.ok()) {
      files_.SetManifest(
          {.number = number_, .bytes = GetFileSize(options, context)});
    }
    return synced;
  }

 private:
  const uint64_t number_;
  StoreFiles& files_;
};

StoreFiles::StoreFiles(const std::string& directory,
                       const std::shared_ptr<rocksdb::FileSystem>& files)
    : FileSystemWrapper(files), directory_(directory, "LOCK") {}

Manifest StoreFiles::manifest() const {
  const MutexLock lock(mutex_);
  return manifest_;
}

void StoreFiles::SetManifest(const Manifest& manifest) {
  const MutexLock lock(mutex_);
  manifest_ = manifest;
}

rocksdb::IOStatus StoreFiles::Check() const {
  const absl::Status there = directory_.Check();
  return there.ok() ? rocksdb::IOStatus::OK()
                    : rocksdb::IOStatus::IOError(std::string(there.message()));
}

rocksdb::IOStatus StoreFiles::NewSequentialFile(
    const std::string& name, const rocksdb::FileOptions& options,
    std::unique_ptr<rocksdb::FSSequentialFile>* file,
    rocksdb::IODebugContext* context) {
  const rocksdb::IOStatus there = Check();
  if (!there.ok()) return there;
  return FileSystemWrapper::NewSequentialFile(name, options, file, context);
}

rocksdb::IOStatus StoreFiles::NewRandomAccessFile(
    const std::string& name, const rocksdb::FileOptions& options,
    std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
    rocksdb::IODebugContext* context) {
  const rocksdb::IOStatus there = Check();
  if (!there.ok()) return there;
  return FileSystemWrapper::NewRandomAccessFile(name, options, file, context);
}

rocksdb::IOStatus StoreFiles::NewWritableFile(
    const std::string& name, const rocksdb::FileOptions& options,
    std::unique_ptr<rocksdb::FSWritableFile>* file,
    rocksdb::IODebugContext* context) {
  rocksdb::IOStatus made = Check();
  if (made.ok()) {
    made = FileSystemWrapper::NewWritableFile(name, options, file, context);
  }
  const absl::string_view base =
      absl::string_view(name).substr(name.rfind('/') + 1);
  const uint64_t manifest = ManifestNumber(base);
  if (made.ok() && manifest > 0) {
    *file = std::make_unique<ManifestFile>(std::move(*file), manifest, *this);
  }
  return made;
}

rocksdb::IOStatus StoreFiles::CreateDirIfMissing(
    const std::string& name, const rocksdb::IOOptions& options,
    rocksdb::IODebugContext* context) {
  const rocksdb::IOStatus there = Check();
  if (!there.ok()) return there;
  return FileSystemWrapper::CreateDirIfMissing(name, options, context);
}

// Else what is there, and is not known, would count as left over.
rocksdb::IOStatus StoreFiles::GetChildren(const std::string& name,
                                          const rocksdb::IOOptions& options,
                                          std::vector<std::string>* children,
                                          rocksdb::IODebugContext* context) {
  const rocksdb::IOStatus there = Check();
  if (!there.ok()) return there;
  return FileSystemWrapper::GetChildren(name, options, children, context);
}

rocksdb::IOStatus StoreFiles::DeleteFile(const std::string& name,
                                         const rocksdb::IOOptions& options,
                                         rocksdb::IODebugContext* context) {
  const rocksdb::IOStatus there = Check();
  if (!there.ok()) return there;
  return FileSystemWrapper::DeleteFile(name, options, context);
}

rocksdb::IOStatus StoreFiles::RenameFile(const std::string& from,
                                         const std::string& to,
                                         const rocksdb::IOOptions& options,
                                         rocksdb::IODebugContext* context) {
  const rocksdb::IOStatus there = Check();
  if (!there.ok()) return there;
  return FileSystemWrapper::RenameFile(from, to, options, context);
}

rocksdb::IOStatus StoreFiles::LockFile(const std::string& name,
                                       const rocksdb::IOOptions& options,
                                       rocksdb::FileLock** lock,
                                       rocksdb::IODebugContext* context) {
  const rocksdb::IOStatus there = Check();
  if (!there.ok()) return there;
  return FileSystemWrapper::LockFile(name, options, lock, context);
}

}  // namespace steadystate
