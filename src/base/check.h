// Checks for our own bugs: they print both values and stop. Never for the user's
// mistakes.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

namespace neuron {

/// Prints `message` with its place and aborts: an invariant of the engine does not hold.
[[noreturn]] inline void fail_check(const char* file, int line,
                                    const std::string& message) {
  std::fprintf(stderr, "[neuron] internal check failed at %s:%d: %s\n", file, line,
               message.c_str());
  std::abort();
}

template <class A, class B>
std::string describe_pair(const char* what, const A& a, const B& b) {
  std::ostringstream out;
  out << what << ": " << a << " against " << b;
  return out.str();
}

}  // namespace neuron

#define NEURON_CHECK(cond, message)                                   \
  do {                                                                \
    if (!(cond)) ::neuron::fail_check(__FILE__, __LINE__, (message)); \
  } while (0)

#define NEURON_CHECK_EQ(a, b)                                                \
  do {                                                                       \
    if (!((a) == (b)))                                                       \
      ::neuron::fail_check(__FILE__, __LINE__,                               \
                           ::neuron::describe_pair(#a " == " #b, (a), (b))); \
  } while (0)

#ifdef NDEBUG
#define NEURON_DCHECK(cond, message) \
  do {                               \
  } while (0)
#else
#define NEURON_DCHECK(cond, message) NEURON_CHECK(cond, message)
#endif
