// The PyTorch that tests compare with, where one is installed (scripts/setup --with-oracle).
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace shardlab::testing_support {

// The Python interpreter that has PyTorch; empty if there is none.
inline std::string oracle_python() {
  if (const char* given = std::getenv("SHARDLAB_ORACLE_PYTHON"); given != nullptr) return given;
  const std::filesystem::path installed =
      std::filesystem::path(SHARDLAB_SOURCE_DIR) / "build" / "oracle" / "bin" / "python";
  std::error_code error;
  return std::filesystem::exists(installed, error) ? installed.string() : "";
}

}  // namespace shardlab::testing_support
