#include "base/blocking.h"

namespace neuron {

BlockingHooks& blocking_hooks() {
  static BlockingHooks hooks;
  return hooks;
}

BlockingRegion::BlockingRegion() {
  if (blocking_hooks().release != nullptr) token_ = blocking_hooks().release();
}

BlockingRegion::~BlockingRegion() {
  if (token_ != nullptr) blocking_hooks().restore(token_);
}

}  // namespace neuron
