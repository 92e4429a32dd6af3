// The wire format of protocol buffers, as much of it as Chakra's traces need: fields with numbers and
// wire types, and messages that stand one after the other, each behind its length.
//
//   WireReader reader(text, "trace.0.et");
//   while (!reader.at_end()) {
//     const WireField field = reader.field();
//     if (field.number == 2) name = reader.text(field, "Node.name"); else reader.skip(field);
//   }
//   WireWriter node;  node.text(2, "all_gather");  node.number(1, 5);
//
// By hand, since the library's generated code would bring a compiler of its own into the build for
// two messages; what is read is bounded by the text, never by a length that the text states.
// Source: protobuf.dev, "Encoding". Throws ConfigError with the offset in bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shardlab {

enum class WireType : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct WireField {
  std::uint64_t number = 0;
  WireType type = WireType::kVarint;
};

class WireReader {
 public:
  // `offset`: of the text in its file. Keeps views of both.
  WireReader(std::string_view text, std::string_view file, std::size_t offset = 0)
      : text_(text), file_(file), offset_(offset) {}

  [[nodiscard]] bool at_end() const { return position_ == text_.size(); }
  [[nodiscard]] WireField field();
  // The next message and its length in front of it.
  [[nodiscard]] WireReader message();

  // Values of a field; `what` names it in messages.
  [[nodiscard]] std::uint64_t varint(WireField field, std::string_view what);
  [[nodiscard]] std::uint64_t fixed64(WireField field, std::string_view what);
  [[nodiscard]] std::uint32_t fixed32(WireField field, std::string_view what);
  [[nodiscard]] std::string_view text(WireField field, std::string_view what);
  [[nodiscard]] WireReader message(WireField field, std::string_view what);
  void skip(WireField field);
  // A number without a field, as packed lists have them.
  [[nodiscard]] std::uint64_t varint();

  // "byte 212" of the file, where the reader is.
  [[nodiscard]] std::string place() const;
  [[noreturn]] void fail(const std::string& message) const;

 private:
  void expect(WireField field, WireType type, std::string_view what) const;
  [[nodiscard]] std::string_view take(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t little_endian(std::size_t bytes);

  std::string_view text_;
  std::string_view file_;
  std::size_t offset_ = 0;
  std::size_t position_ = 0;
};

class WireWriter {
 public:
  void number(std::uint64_t field, std::uint64_t value);  // a varint
  void text(std::uint64_t field, std::string_view value);
  void message(std::uint64_t field, const WireWriter& value) { text(field, value.bytes_); }
  // Parts of a field: its number and type, then its value.
  void tag(std::uint64_t field, WireType type);
  void varint(std::uint64_t value);
  void fixed(std::uint64_t value, int bytes);  // the lowest of its bytes
  void raw(std::string_view bytes) { bytes_ += bytes; }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }
  // Behind its length.
  [[nodiscard]] std::string delimited() const;

 private:
  std::string bytes_;
};

}  // namespace shardlab
