// Error messages are part of the interface: tests compare them word for word.
//
//   EXPECT_THROW_MSG(parse_bytes("1XB"), TextError,
//                    "size \"1XB\": at position 1: expected a unit: ...");
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <string>

namespace shardlab::testing_support {

// The message of the error that a call throws, or a text that says what the call did instead.
template <class Error, class Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("(an exception of another type: ") + error.what() + ")";
  }
  return "(nothing was thrown)";
}

}  // namespace shardlab::testing_support

#define EXPECT_THROW_MSG(statement, Error, message)                                                \
  EXPECT_EQ(::shardlab::testing_support::message_of<Error>([&] { static_cast<void>(statement); }), \
            std::string(message))
