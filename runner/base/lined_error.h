// Errors whose message has several lines, such as those of a user's Python file with the lines of
// it that led there. runner/main.cpp shows any other message on one line, since a name in it may
// hold line breaks that forge output.
//
//   throw LinedConfigError("mine.py", printable(first_line) + "\n  " + printable(second_line));
//
// Whoever throws one has made each line printable() before joining them.
#pragma once

#include "costmodel/base/error.h"

namespace shardlab {

struct LinedMessage {};

class LinedConfigError : public ConfigError, public LinedMessage {
 public:
  LinedConfigError(std::string_view file, std::string_view message)
      : ConfigError(file, "", message) {}
};

class LinedEnvironmentError : public EnvironmentError, public LinedMessage {
 public:
  using EnvironmentError::EnvironmentError;
};

}  // namespace shardlab
