#include "rendezvous/coordination/election/first_place.h"

namespace ddprun::rendezvous {

void FirstPlace::on_failed_attempt(const RecordId& known, TimePoint now) {
  failed_attempts_ = known.round > 0 ? 0 : failed_attempts_ + 1;
  if (!searching_since_) searching_since_ = now;
}

void FirstPlace::connected() {
  followed_ = true;
  failed_attempts_ = 0;
  searching_since_.reset();
}

bool FirstPlace::should_begin(const RecordId& newest, TimePoint now) const {
  if (!ours_ || newest.round > 0) return false;
  if (!followed_ && places_ == 1) return true;
  if (failed_attempts_ < places_) return false;
  return !followed_ || now - *searching_since_ >= kCoordinatorSearchLimit;
}

}  // namespace ddprun::rendezvous
