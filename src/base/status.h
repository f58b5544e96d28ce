// Status: an expected failure of the world (out of memory, a kernel that raised),
// returned, never thrown across a stage.
#pragma once

#include <memory>
#include <string>
#include <utility>

namespace neuron {

/// What kind of exception the user will see for a failure.
enum class ErrorKind : uint8_t {
  kRuntime,
  kIndex,
  kValue,
  kType,
  kNotImplemented,
  kLinalg,
  kOutOfMemory,
};

/// A failure that happened while work was executed; shared by everything that depends on
/// it.
struct Error {
  ErrorKind kind = ErrorKind::kRuntime;
  std::string message;
  /// Where and by what the failing work was recorded; filled in by the recorder's side.
  std::string context;
};

using ErrorPtr = std::shared_ptr<const Error>;

/// Success, or the reason why not. Costs one pointer.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(ErrorKind kind, std::string message)
      : error_(std::make_shared<Error>(Error{kind, std::move(message), {}})) {}
  explicit Status(ErrorPtr error) : error_(std::move(error)) {}

  bool is_ok() const { return error_ == nullptr; }
  const ErrorPtr& error() const { return error_; }

 private:
  ErrorPtr error_;
};

}  // namespace neuron
