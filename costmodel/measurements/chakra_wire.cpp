#include "costmodel/measurements/chakra_wire.h"

#include "costmodel/base/error.h"

namespace shardlab {
namespace {

constexpr std::uint64_t kMaxFieldNumber = (std::uint64_t{1} << 29U) - 1;

}  // namespace

std::string WireReader::place() const { return "byte " + std::to_string(offset_ + position_); }

void WireReader::fail(const std::string& message) const {
  throw ConfigError(file_, place(), message);
}

std::string_view WireReader::take(std::uint64_t bytes) {
  if (bytes > text_.size() - position_) {
    fail("the text ends after " + std::to_string(text_.size() - position_) + " of " +
         std::to_string(bytes) + " bytes");
  }
  const std::string_view taken = text_.substr(position_, bytes);
  position_ += bytes;
  return taken;
}

std::uint64_t WireReader::little_endian(std::size_t bytes) {
  std::uint64_t value = 0;
  unsigned shift = 0;
  for (const char c : take(bytes)) {
    value |= std::uint64_t{static_cast<unsigned char>(c)} << shift;
    shift += 8U;
  }
  return value;
}

std::uint64_t WireReader::varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const std::uint64_t byte = little_endian(1);
    value |= (byte & 0x7FU) << shift;
    if (byte < 0x80U) return value;
  }
  fail("found a number of more than 10 bytes");
}

WireField WireReader::field() {
  const std::uint64_t tag = varint();
  const std::uint64_t type = tag & 7U;
  const std::uint64_t number = tag >> 3U;
  if (number == 0 || number > kMaxFieldNumber) {
    fail("found field number " + std::to_string(number) + "; valid: 1 to " +
         std::to_string(kMaxFieldNumber));
  }
  if (type != 0 && type != 1 && type != 2 && type != 5) {
    fail("found wire type " + std::to_string(type) + "; valid: 0, 1, 2, 5");
  }
  return {number, static_cast<WireType>(type)};
}

WireReader WireReader::message() {
  const std::uint64_t size = varint();
  const std::size_t begin = position_;
  return {take(size), file_, offset_ + begin};
}

void WireReader::expect(WireField field, WireType type, std::string_view what) const {
  if (field.type == type) return;
  fail(std::string(what) + ": found wire type " + std::to_string(static_cast<int>(field.type)) +
       "; valid: " + std::to_string(static_cast<int>(type)));
}

std::uint64_t WireReader::varint(WireField field, std::string_view what) {
  expect(field, WireType::kVarint, what);
  return varint();
}

std::uint64_t WireReader::fixed64(WireField field, std::string_view what) {
  expect(field, WireType::kFixed64, what);
  return little_endian(8);
}

std::uint32_t WireReader::fixed32(WireField field, std::string_view what) {
  expect(field, WireType::kFixed32, what);
  return static_cast<std::uint32_t>(little_endian(4));
}

std::string_view WireReader::text(WireField field, std::string_view what) {
  expect(field, WireType::kBytes, what);
  return take(varint());
}

WireReader WireReader::message(WireField field, std::string_view what) {
  expect(field, WireType::kBytes, what);
  return message();
}

void WireReader::skip(WireField field) {
  switch (field.type) {
    case WireType::kVarint:
      static_cast<void>(varint());
      break;
    case WireType::kFixed64:
      static_cast<void>(take(8));
      break;
    case WireType::kBytes:
      static_cast<void>(take(varint()));
      break;
    case WireType::kFixed32:
      static_cast<void>(take(4));
      break;
  }
}

void WireWriter::varint(std::uint64_t value) {
  for (; value >= 0x80U; value >>= 7U) bytes_ += static_cast<char>((value & 0x7FU) | 0x80U);
  bytes_ += static_cast<char>(value);
}

void WireWriter::tag(std::uint64_t field, WireType type) {
  varint(field << 3U | static_cast<std::uint64_t>(type));
}

void WireWriter::number(std::uint64_t field, std::uint64_t value) {
  tag(field, WireType::kVarint);
  varint(value);
}

void WireWriter::fixed(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i, value >>= 8U) bytes_ += static_cast<char>(value & 0xFFU);
}

void WireWriter::text(std::uint64_t field, std::string_view value) {
  tag(field, WireType::kBytes);
  varint(value.size());
  bytes_ += value;
}

std::string WireWriter::delimited() const {
  WireWriter length;
  length.varint(bytes_.size());
  return length.bytes_ + bytes_;
}

}  // namespace shardlab
