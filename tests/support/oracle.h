// The PyTorch that tests compare with, where one is installed (scripts/setup --with-oracle).
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace shardlab::testing_support {

// The Python interpreter that has PyTorch; empty if there is none.
inline std::string oracle_python() {
  if (const char* given = std::getenv("SHARDLAB_ORACLE_PYTHON"); given != nullptr) return given;
  const std::filesystem::path installed =
      std::filesystem::path(SHARDLAB_SOURCE_DIR) / "build" / "oracle" / "bin" / "python";
  std::error_code error;
  return std::filesystem::exists(installed, error) ? installed.string() : "";
}

// The interpreters of all releases that are installed: oracle_python(), and those that
// `scripts/setup --with-oracle VERSION` puts beside it.
inline std::vector<std::string> oracle_pythons() {
  std::vector<std::string> pythons;
  if (!oracle_python().empty()) pythons.push_back(oracle_python());
  const std::filesystem::path build = std::filesystem::path(SHARDLAB_SOURCE_DIR) / "build";
  for (const char* release : {"2.14.1", "2.15.0"}) {
    const std::filesystem::path python =
        build / (std::string("oracle-") + release) / "bin" / "python";
    std::error_code error;
    if (std::filesystem::exists(python, error)) pythons.push_back(python.string());
  }
  return pythons;
}

}  // namespace shardlab::testing_support
