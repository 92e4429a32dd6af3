// Names, and whatever else comes from a file or a command line, made safe to show. A name is data:
// it may hold codes that control a terminal, line breaks that forge a line of output, and letters
// that reverse the text around them.
//
//   printable("a\x1b[31mb\nc")          // "a\\x1b[31mb\\x0ac"
//   printable("a\u202eb")                // "a\\u{202e}b"
//   printable_json("\"a\u202eb\"")       // "\"a\\u202eb\"", the same JSON
//   with_short_values("found \"aa...\"")  // no value is longer than 200 bytes
//
// Text for terminals goes through printable(), JSON for them through printable_json(), and text in
// HTML and Markdown through printable_lines() before it is escaped for the format
// (reports/writers).
// Tested by tests/unit/costmodel/base/printable_test.cpp.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shardlab {

// The text on one line. Control characters and bytes that are not UTF-8 are written as \x1b, and
// letters that have no shape of their own but move others as \u{202e}.
[[nodiscard]] std::string printable(std::string_view text);
// The same, except that line breaks and tabs stay.
[[nodiscard]] std::string printable_lines(std::string_view text);
// The same JSON, with the letters that printable() shows written by JSON's own escapes. Expects
// valid JSON, where such letters stand only in strings.
[[nodiscard]] std::string printable_json(std::string_view text);

// The message with every quoted text and every word that is longer than 200 bytes cut in its
// middle, so that a message about a huge value stays readable.
[[nodiscard]] std::string with_short_values(std::string_view message);

// The length in bytes of the UTF-8 letter at the start of a text; 0 if there is none. Overlong
// forms, surrogates and control characters of two bytes are not letters.
[[nodiscard]] std::size_t letter_length(std::string_view text);
// The number of a letter of several bytes. Assumes that letter_length accepts it.
[[nodiscard]] char32_t code_point(std::string_view letter);

}  // namespace shardlab
