// The four ways in which things go wrong (see CONTRIBUTING.md): a broken contract, bad text, bad
// input in a file, and an environment that lacks something. "The answer is no" is not an error: it
// is a value with a reason.
//
//   SHARDLAB_CHECK(rank < group_size, "rank ", rank, " in a group of ", group_size);   // always on
//   throw ConfigError("h200.json", "/links/1/bandwith_gb_per_s", "unknown key; valid: ...");
//
// runner/main.cpp maps them to exit codes: TextError and InputError 2 (command line) or 3 (file),
// LimitError and ConfigError 3, EnvironmentError 4, anything else 5.
#pragma once

#include <cstddef>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace shardlab {

// The caller broke a contract: a bug in shardlab, never in the user's input.
class ContractError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// A text form (placement, mesh, tensor, size ...) does not parse. `position` counts bytes from 0.
class TextError : public std::runtime_error {
 public:
  TextError(std::string_view what_kind, std::string_view text, std::size_t position,
            std::string_view expected)
      : std::runtime_error(std::string(what_kind) + " \"" + std::string(text) + "\": at position " +
                           std::to_string(position) + ": expected " + std::string(expected)) {}
};

// Each word of a question is valid, but the question as a whole makes no sense: a shape does not
// suit the op, for example, or an argument is missing.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The question is valid, but answering it would exceed a limit that the caller set.
class LimitError : public InputError {
 public:
  using InputError::InputError;
};

// The input is bad. The message names the file (or option) that it came from, the JSON pointer or
// line in it ("" for the whole file), what was found and what is valid.
class ConfigError : public std::runtime_error {
 public:
  ConfigError(std::string_view file, std::string_view pointer, std::string_view message)
      : std::runtime_error(std::string(file) + (pointer.empty() ? "" : ":") + std::string(pointer) +
                           ": " + std::string(message)) {}
};

// The environment lacks something: a file, a GPU, a library. The message names the call, its error
// code and what to do.
class EnvironmentError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace internal {
template <class... Values>
[[noreturn]] void throw_contract_error(const char* condition, const char* file, int line,
                                       const Values&... values) {
  std::ostringstream message;
  message << file << ":" << line << ": contract broken: " << condition;
  if constexpr (sizeof...(values) > 0) {
    message << ": ";
    (message << ... << values);
  }
  throw ContractError(std::move(message).str());
}
}  // namespace internal

}  // namespace shardlab

#define SHARDLAB_CHECK(condition, ...)                                        \
  (static_cast<bool>(condition) ? static_cast<void>(0)                        \
                                : ::shardlab::internal::throw_contract_error( \
                                      #condition, __FILE__, __LINE__ __VA_OPT__(, ) __VA_ARGS__))
