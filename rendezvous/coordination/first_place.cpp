#include "rendezvous/coordination/first_place.h"

namespace ddprun::rendezvous {

void FirstPlace::asked(const RecordId& known, TimePoint now) {
  in_vain_ = known.round > 0 ? 0 : in_vain_ + 1;
  if (!looks_since_) looks_since_ = now;
}

void FirstPlace::connected() {
  followed_ = true;
  in_vain_ = 0;
  looks_since_.reset();
}

bool FirstPlace::begins(const RecordId& newest, TimePoint now) const {
  if (!ours_ || newest.round > 0) return false;
  if (!followed_ && places_ == 1) return true;
  if (in_vain_ < places_) return false;
  return !followed_ || now - *looks_since_ >= kLooksForJob;
}

}  // namespace ddprun::rendezvous
