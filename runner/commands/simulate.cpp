// shardlab simulate: one redistribution, run on virtual ranks with real bytes.
#include <chrono>

#include "costmodel/text.h"
#include "runner/commands/commands.h"
#include "runner/redistribution.h"
#include "runner/terminal.h"
#include "sim/executor.h"
#include "strategies/evaluator.h"

namespace shardlab {
namespace {

struct SimulateArguments {
  RedistributionArguments redistribution;
  std::string data = "on";
  std::string values = "whole";
  std::string reduction = "ring";
  bool domains_first = false;
  std::string memory = "8GiB";
};

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

nlohmann::json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::json(nullptr) : nlohmann::json(text);
}

}  // namespace
}  // namespace shardlab
