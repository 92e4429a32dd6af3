#include "reports/records/simulation_record.h"

#include <utility>

namespace shardlab::reports {
namespace {

using nlohmann::json;

SimulatedTimes read_times(StrictObject& owner, const char* key, std::string_view file) {
  StrictObject object(owner.object(key), file, owner.pointer_to(key));
  SimulatedTimes times;
  times.p50_us = object.number_or_null("p50");
  times.p95_us = object.number_or_null("p95");
  times.max_us = object.number_or_null("max");
  object.finish();
  return times;
}

std::optional<bool> flag_or_null(StrictObject& object, const char* key) {
  if (object.value(key).is_null()) return std::nullopt;
  return object.flag(key);
}

SimulatedStep read_step(const json& value, std::string_view file, std::string pointer) {
  StrictObject object(value, file, std::move(pointer));
  SimulatedStep step;
  step.node = object.text("node");
  step.name = object.text("name");
  step.change = object.text("change");
  step.price_us = object.number_or_null("price_us");
  step.end = read_times(object, "end_us", file);
  step.wait_us = object.number_or_null("wait_us");
  step.bytes_moved = object.integer("bytes_moved", 0);
  step.max_abs_error = object.number_or_null("max_abs_error");
  object.finish();
  return step;
}

}  // namespace

SimulationRecord read_simulation_record(ResultRecord record, std::string_view file) {
  SimulationRecord run;
  static_cast<ResultRecord&>(run) = std::move(record);
  StrictObject object(run.result, file, "/result");
  run.what = object.text("what");
  run.mesh = object.text("mesh");
  run.stack = object.text("stack");
  run.ranks = object.integer("ranks", 0);
  run.has_data = object.flag("data");
  run.verified = flag_or_null(object, "verified");
  run.mismatch = object.text_or_null("mismatch");
  run.replicas_bitwise_equal = flag_or_null(object, "replicas_bitwise_equal");
  run.refused = object.text_or_null("refused");
  run.straggler = object.text("straggler");
  run.time = read_times(object, "time_us", file);
  run.bytes_moved = object.integer("bytes_moved", 0);
  run.notes = object.texts("notes");
  const json& steps = object.array("steps");
  for (std::size_t i = 0; i < steps.size(); ++i) {
    run.steps.push_back(read_step(steps[i], file, "/result/steps/" + std::to_string(i)));
  }
  object.finish();
  return run;
}

}  // namespace shardlab::reports
