#include "reports/records/answer_detail.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "reports/records/strict_json.h"

namespace shardlab::reports {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

ordered_json number_or_null(const std::optional<double>& number) {
  return number ? ordered_json(*number) : ordered_json(nullptr);
}

ordered_json parts_json(const std::optional<PartsOfPrice>& parts) {
  if (!parts) return nullptr;
  return {{"latency", parts->latency_us},
          {"transfer", parts->transfer_us},
          {"compute", parts->compute_us},
          {"straggler", parts->straggler_us}};
}

std::optional<PartsOfPrice> read_parts(StrictObject& owner, std::string_view file) {
  if (owner.value("parts_us").is_null()) return std::nullopt;
  StrictObject object(owner.object("parts_us"), file, owner.pointer_to("parts_us"));
  PartsOfPrice parts;
  parts.latency_us = object.number("latency");
  parts.transfer_us = object.number("transfer");
  parts.compute_us = object.number("compute");
  parts.straggler_us = object.number("straggler");
  object.finish();
  return parts;
}

DetailCandidate read_candidate(const json& value, std::string_view file, std::string pointer) {
  StrictObject object(value, file, std::move(pointer));
  DetailCandidate candidate;
  candidate.choice = object.text("choice");
  candidate.total_us = object.number_or_null("total_us");
  candidate.parts = read_parts(object, file);
  candidate.kernel_us = object.number("kernel_us");
  candidate.reference_us = object.number_or_null("reference_us");
  candidate.is_chosen = object.flag("chosen");
  object.finish();
  return candidate;
}

DetailStep read_step(const json& value, std::string_view file, std::string pointer) {
  StrictObject object(value, file, std::move(pointer));
  DetailStep step;
  step.of = object.text("of");
  step.what = object.text("what");
  step.full_bytes = object.number("full_bytes");
  step.price_us = object.number_or_null("price_us");
  step.parts = read_parts(object, file);
  object.finish();
  return step;
}

}  // namespace

ordered_json to_json(const AnswerDetail& detail) {
  ordered_json candidates = ordered_json::array();
  for (const DetailCandidate& candidate : detail.candidates) {
    candidates.push_back({{"choice", candidate.choice},
                          {"total_us", number_or_null(candidate.total_us)},
                          {"parts_us", parts_json(candidate.parts)},
                          {"kernel_us", candidate.kernel_us},
                          {"reference_us", number_or_null(candidate.reference_us)},
                          {"chosen", candidate.is_chosen}});
  }
  ordered_json steps = ordered_json::array();
  for (const DetailStep& step : detail.steps) {
    steps.push_back({{"of", step.of},
                     {"what", step.what},
                     {"full_bytes", step.full_bytes},
                     {"price_us", number_or_null(step.price_us)},
                     {"parts_us", parts_json(step.parts)}});
  }
  ordered_json value = {{"candidates", std::move(candidates)}, {"steps", std::move(steps)}};
  if (detail.looked_for_flip) value["flips_first"] = nullptr;
  if (detail.flips_first) {
    value["flips_first"] = {{"parameter", detail.flips_first->parameter},
                            {"factor", detail.flips_first->factor},
                            {"to", detail.flips_first->to}};
  }
  return value;
}

AnswerDetail read_answer_detail(const json& value, std::string_view file,
                                const std::string& pointer) {
  StrictObject object(value, file, pointer);
  AnswerDetail detail;
  const auto at = [&](const char* array, std::size_t i) {
    return pointer + "/" + array + "/" + std::to_string(i);
  };
  const json& candidates = object.array("candidates");
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    detail.candidates.push_back(read_candidate(candidates[i], file, at("candidates", i)));
  }
  const json& steps = object.array("steps");
  for (std::size_t i = 0; i < steps.size(); ++i) {
    detail.steps.push_back(read_step(steps[i], file, at("steps", i)));
  }
  detail.looked_for_flip = object.has("flips_first");
  if (detail.looked_for_flip && !object.value("flips_first").is_null()) {
    StrictObject flip(object.object("flips_first"), file, object.pointer_to("flips_first"));
    DetailFlip first;
    first.parameter = flip.text("parameter");
    first.factor = flip.number("factor");
    first.to = flip.text("to");
    flip.finish();
    detail.flips_first = std::move(first);
  }
  object.finish();
  return detail;
}

}  // namespace shardlab::reports
