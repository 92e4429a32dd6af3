// What the fuzzers share: a promise that ends the process when it is broken, and numbers that are
// made out of the input's bytes.
//
// A fuzzer reads what libFuzzer throws at it; scripts/check.sh --full runs each for a minute.
// Seeds are in corpus/<fuzzer>/, and words in <fuzzer>.dict.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#define FUZZ_CHECK(condition, ...)                                                            \
  do {                                                                                        \
    if (!(condition)) ::shardlab::testing_support::broken(#condition, __LINE__, __VA_ARGS__); \
  } while (false)

namespace shardlab::testing_support {

[[noreturn]] inline void broken(const char* condition, int line, const std::string& details) {
  std::fprintf(stderr, "line %d: broken: %s\n%s\n", line, condition, details.c_str());
  std::abort();
}

// Takes bytes from the front, and zeros when they have run out.
class Bytes8 {
 public:
  Bytes8(const std::uint8_t* data, std::size_t size)
      : rest_(reinterpret_cast<const char*>(data), size) {}

  std::uint8_t byte() {
    if (rest_.empty()) return 0;
    const auto value = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }
  // 0 to end - 1.
  int below(int end) { return byte() % end; }
  [[nodiscard]] std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

}  // namespace shardlab::testing_support

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
