#ifndef STEADYSTATE_SERVER_STORE_HELD_DIRECTORY_H_
#define STEADYSTATE_SERVER_STORE_HELD_DIRECTORY_H_

#include <sys/types.h>

#include <string>
#include <utility>

#include "absl/status/status.h"

namespace steadystate {

// Tells whether a path still leads to the directory that it led to at first. It
// does not when that was moved away or removed, with another one in its place
// or not: then what is done by names would be done to somebody else's files,
// while those that are open are written on where nobody looks for them.
//
// Thread-safe but for Hold.
class HeldDirectory {
 public:
  // `lock`: the name of the file in it that keeps others out, which must stay
  // the same one, too; empty: none.
  explicit HeldDirectory(std::string path, std::string lock = "")
      : path_(std::move(path)), lock_(std::move(lock)) {}
  ~HeldDirectory();
  HeldDirectory(const HeldDirectory&) = delete;
  HeldDirectory& operator=(const HeldDirectory&) = delete;

  // From now on it must stay the one that is there. UNAVAILABLE, with what the
  // system said. Call at most once.
  absl::Status Hold();
  // UNAVAILABLE: it is not, with what can be done.
  absl::Status Check() const;

 private:
  struct Identity {
    bool operator==(const Identity&) const = default;

    dev_t device = 0;
    ino_t number = 0;
  };
  static bool Find(const std::string& path, Identity& found);

  const std::string path_;
  const std::string lock_;
  int directory_ = -1;  // open, so that its number is given to no other
  Identity held_;
  Identity held_lock_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_STORE_HELD_DIRECTORY_H_
