#include "runner/torch/torch_decisions.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/units.h"
#include "runner/choices/question_text.h"
#include "sim/placement_text.h"

namespace shardlab {
namespace {

// Reads a line such as "S(0);R|S(0) 12.5;inf": a candidate, and the price of each input.
void read_line(std::string_view line, int mesh_ndim, GivenDecision& decision) {
  const std::size_t blank = std::min(line.rfind(' '), line.size());
  decision.candidates.push_back(parse_candidate_line(line.substr(0, blank), mesh_ndim));
  std::vector<double>& prices = decision.redistribute_us.emplace_back();
  std::string rest(line.substr(std::min(blank + 1, line.size())));
  for (const char* at = rest.c_str(); *at != '\0';) {
    char* end = nullptr;
    prices.push_back(std::strtod(at, &end));  // Python writes infinity as "inf"
    if (end == at) throw TextError("price", rest, 0, "numbers separated by semicolons");
    at = *end == ';' ? end + 1 : end;
  }
}

std::vector<Placements> read_layouts(const nlohmann::json& texts, int mesh_ndim) {
  std::vector<Placements> layouts;
  for (const nlohmann::json& text : texts) {
    layouts.push_back(parse_candidate_placements(text.get<std::string>(), mesh_ndim));
  }
  return layouts;
}

void read_decision(const nlohmann::json& ok, int mesh_ndim, TorchDecisions::Answer& answer) {
  const nlohmann::json& own = ok.contains("children") ? ok.at("children").at(0) : ok;
  const nlohmann::json total = own.value("total_us", nlohmann::json());
  answer.least_us = total.is_number() ? std::optional(total.get<double>()) : std::nullopt;
  GivenDecision& decision = answer.decision;
  if (const auto count = own.find("candidates"); count != own.end() && count->is_number()) {
    decision.weighed = count->get<std::size_t>();
  }
  if (own.contains("list")) {
    for (const nlohmann::json& line : own.at("list")) {
      read_line(line.get<std::string>(), mesh_ndim, decision);
    }
  }
  if (!own.contains("chosen") || own.at("chosen").is_null()) return;
  FollowCandidate chosen{.outputs = read_layouts(own.at("chosen").at("outputs"), mesh_ndim),
                         .inputs = read_layouts(own.at("chosen").at("inputs"), mesh_ndim)};
  const auto found =
      std::find_if(decision.candidates.begin(), decision.candidates.end(), [&](const auto& each) {
        return each.inputs == chosen.inputs && each.outputs == chosen.outputs;
      });
  decision.chosen = static_cast<std::size_t>(found - decision.candidates.begin());
  if (found != decision.candidates.end()) return;
  // PyTorch decided without a list of candidates. The whole price stands at the first input.
  std::vector<double> prices(chosen.inputs.size(), 0.0);
  if (!prices.empty()) prices.front() = answer.least_us.value_or(kInfinity);
  decision.candidates.push_back(std::move(chosen));
  decision.redistribute_us.push_back(std::move(prices));
}

TorchDecisions::Answer read_answer(const nlohmann::json& message, const std::string& op,
                                   int mesh_ndim) {
  TorchDecisions::Answer answer;
  if (message.contains("error")) {
    // A patch, a rule or a cost function failed, or the question cannot be asked at all.
    if (message["error"].value("type", "") == "RequestError") {
      answer.refusal = describe_python_error(message["error"]);
      return answer;
    }
    throw ConfigError("the decision about " + op, "", describe_python_error(message["error"]));
  }
  const nlohmann::json& ok = message.at("ok");
  if (ok.contains("error")) {
    answer.refusal = "PyTorch says " + ok["error"].get<std::string>();
    return answer;
  }
  answer.is_settled = ok.value("order", "") != "unsettled";
  try {
    read_decision(ok, mesh_ndim, answer);
  } catch (const TextError& error) {
    answer.has_foreign_layouts = true;
    answer.refusal =
        std::string("PyTorch lists a candidate that shardlab has no layout for: ") + error.what();
  }
  return answer;
}

GivenDecision decision_of(const OpCall& call, TorchDecisions::Answer answer) {
  if (!answer.refusal.empty()) throw InputError(call.op + ": " + answer.refusal);
  return std::move(answer.decision);
}

TorchDecisions::PlanAnswer read_plan(const nlohmann::json& message, const std::string& what) {
  TorchDecisions::PlanAnswer answer;
  if (message.contains("error")) {
    // As in read_answer(): either the user's file failed, or the question cannot be asked at all.
    const std::string said = describe_python_error(message["error"]);
    if (message["error"].value("type", "") != "RequestError") throw ConfigError(what, "", said);
    answer.refusal = said;
    answer.is_settled = false;
    return answer;
  }
  const nlohmann::json& ok = message.at("ok");
  if (ok.contains("error")) {
    answer.refusal = "PyTorch says " + ok["error"].get<std::string>();
    return answer;
  }
  answer.is_settled = ok.value("order", "") != "unsettled";
  const nlohmann::json& us = ok.at("us");
  answer.plan.price_us = us.is_number() ? us.get<double>() : kInfinity;
  if (!ok.at("steps").is_array()) return answer;
  for (const nlohmann::json& step : ok.at("steps")) {
    answer.plan.steps.push_back({.mesh_dim = step.at(0).get<int>(),
                                 .from = Placement::parse(step.at(1).get<std::string>()),
                                 .to = Placement::parse(step.at(2).get<std::string>())});
  }
  return answer;
}

}  // namespace

void TorchDecisions::prepare(std::span<const DecisionQuestion> questions, const Topology& topology,
                             const std::function<void()>& asked) {
  ask_all(questions, topology.domain_devices(), asked);
}

void TorchDecisions::ask_all(std::span<const DecisionQuestion> questions,
                             std::int64_t domain_devices, const std::function<void()>& asked) {
  const std::lock_guard asking(asking_);
  nlohmann::json wanted = nlohmann::json::array();
  std::vector<std::pair<std::string, const DecisionQuestion*>> keys;
  {
    const std::lock_guard guard(lock_);
    // The prices of other domains are of no use.
    if (domain_devices != domain_devices_) answers_.clear();
    domain_devices_ = domain_devices;
    std::set<std::string> seen;
    for (const DecisionQuestion& each : questions) {
      nlohmann::json question = decision_question(*each.call, *each.mesh, domain_devices);
      std::string key = question_key(*each.call, *each.mesh);
      if (answers_.contains(key) || !seen.insert(key).second) continue;
      question["list"] = true;
      wanted.push_back(std::move(question));
      keys.emplace_back(std::move(key), &each);
    }
  }
  if (keys.empty()) return;
  worker_->ask({{"do", "decisions"}, {"questions", std::move(wanted)}}, keys.size(),
               [&](std::size_t i, const nlohmann::json& message) {
                 const auto& [key, question] = keys.at(i);
                 Answer answer = read_answer(message, question->call->op, question->mesh->ndim());
                 const std::lock_guard guard(lock_);
                 answers_.emplace(key, std::move(answer));
                 asked();
               });
}

TorchDecisions::Answer TorchDecisions::ask(const OpCall& call, const DeviceMesh& mesh,
                                           std::int64_t domain_devices) {
  const DecisionQuestion question{&call, &mesh};
  ask_all({&question, 1}, domain_devices, [] {});
  const std::lock_guard guard(lock_);
  return answers_.at(question_key(call, mesh));
}

TorchDecisions::Answer TorchDecisions::answer(const OpCall& call, const DeviceMesh& mesh,
                                              const Topology& topology) {
  return ask(call, mesh, topology.domain_devices());
}

GivenDecision TorchDecisions::decide(const OpCall& call, const DeviceMesh& mesh,
                                     const Topology& topology) {
  return decision_of(call, answer(call, mesh, topology));
}

std::vector<FollowCandidate> TorchDecisions::candidates(const OpCall& call,
                                                        const DeviceMesh& mesh) {
  std::int64_t domain_devices = 1;
  {
    const std::lock_guard guard(lock_);
    domain_devices = domain_devices_;
  }
  return decision_of(call, ask(call, mesh, domain_devices)).candidates;
}

TorchDecisions::PlanAnswer TorchDecisions::plan_answer(const DeviceMesh& mesh,
                                                       const Topology& topology,
                                                       const TensorMeta& meta, const Layout& from,
                                                       const Layout& to) {
  const nlohmann::json question = {
      {"mesh", mesh.text()},   {"devices_per_host", topology.domain_devices()},
      {"tensor", meta.text()}, {"from", from.text()},
      {"to", to.text()},       {"planner", "default"}};
  const std::string key = question.dump();
  const std::lock_guard asking(asking_);
  {
    const std::lock_guard guard(lock_);
    if (const auto found = plans_.find(key); found != plans_.end()) return found->second;
  }
  nlohmann::json message;
  worker_->ask({{"do", "plans"}, {"questions", nlohmann::json::array({question})}}, 1,
               [&](std::size_t, const nlohmann::json& each) { message = each; });
  PlanAnswer answer = read_plan(message, "the plan from " + from.text() + " to " + to.text());
  const std::lock_guard guard(lock_);
  return plans_.emplace(key, std::move(answer)).first->second;
}

std::optional<GivenPlan> TorchDecisions::plan(const DeviceMesh& mesh, const Topology& topology,
                                              const TensorMeta& meta, const Layout& from,
                                              const Layout& to) {
  PlanAnswer answer = plan_answer(mesh, topology, meta, from, to);
  if (!answer.refusal.empty()) {
    throw InputError("the plan from " + from.text() + " to " + to.text() + ": " + answer.refusal);
  }
  return std::move(answer.plan);
}

}  // namespace shardlab
