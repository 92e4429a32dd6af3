// The part of the wire format of protocol buffers that Chakra's traces need: fields with numbers
// and wire types, and messages one after another, each after its length.
//
//   WireReader reader(text, "trace.0.et");
//   while (!reader.at_end()) {
//     const WireField field = reader.field();
//     if (field.number == 2) name = reader.text(field, "Node.name"); else reader.skip(field);
//   }
//   WireWriter node;  node.text(2, "all_gather");  node.number(1, 5);
//
// The format is read by hand, since the protobuf library would add a compiler of its own to the
// build for two messages. No read goes beyond the text, whatever lengths the text states. Source:
// protobuf.dev, "Encoding". Throws ConfigError with the offset in bytes.
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
  // `offset` is the offset of the text in its file. The reader keeps views of `text` and `file`.
  WireReader(std::string_view text, std::string_view file, std::size_t offset = 0)
      : text_(text), file_(file), offset_(offset) {}

  [[nodiscard]] bool at_end() const { return position_ == text_.size(); }
  [[nodiscard]] WireField field();
  // The next message, which follows its length.
  [[nodiscard]] WireReader message();

  // The value of a field; `what` names the field in error messages.
  [[nodiscard]] std::uint64_t varint(WireField field, std::string_view what);
  [[nodiscard]] std::uint64_t fixed64(WireField field, std::string_view what);
  [[nodiscard]] std::uint32_t fixed32(WireField field, std::string_view what);
  [[nodiscard]] std::string_view text(WireField field, std::string_view what);
  [[nodiscard]] WireReader message(WireField field, std::string_view what);
  void skip(WireField field);
  // A number that has no tag in front of it, as in packed lists.
  [[nodiscard]] std::uint64_t varint();

  // Where the reader is in the file: "byte 212".
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
  // The parts of a field, for fields that the functions above do not write: first the tag, then a
  // value.
  void tag(std::uint64_t field, WireType type);
  void varint(std::uint64_t value);
  void fixed(std::uint64_t value, int bytes);  // the lowest `bytes` bytes, little-endian
  void raw(std::string_view bytes) { bytes_ += bytes; }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }
  // The message, preceded by its length.
  [[nodiscard]] std::string delimited() const;

 private:
  std::string bytes_;
};

}  // namespace shardlab
