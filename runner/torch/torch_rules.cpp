#include "runner/torch/torch_rules.h"

#include <set>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"
#include "strategies/rules/rule_table.h"
#include "strategies/rules/rule_text.h"

namespace shardlab {
namespace {

// The text of an argument without its layouts: "f32[8,8]", "[f32[8]; none]" or "none".
std::string shapes_text(const TensorArg& arg, bool as_list) {
  if (arg.is_absent()) return "none";
  if (!arg.is_list && !as_list) return arg.tensors[0].meta.text();
  std::string text = "[";
  std::size_t next = 0;
  const std::size_t size = arg.given.empty() ? arg.tensors.size() : arg.given.size();
  for (std::size_t i = 0; i < size; ++i) {
    const bool given = arg.given.empty() || arg.given[i];
    text += (i == 0 ? "" : "; ") + (given ? arg.tensors[next++].meta.text() : "none");
  }
  return text + "]";
}

// One element of a foreach op is asked about as a list of one tensor.
nlohmann::json rows_question(const OpCall& call, bool foreach) {
  nlohmann::json inputs = nlohmann::json::array();
  for (const TensorArg& arg : call.inputs) inputs.push_back(shapes_text(arg, foreach));
  return {{"op", call.op}, {"inputs", std::move(inputs)}, {"args", call.args}};
}

nlohmann::json candidates_question(const OpCall& call, const DeviceMesh& mesh, bool foreach) {
  nlohmann::json inputs = nlohmann::json::array();
  for (const TensorArg& arg : call.inputs) {
    const bool wraps = foreach && !arg.is_list && !arg.is_absent();
    inputs.push_back(wraps ? "[" + arg.text() + "]" : arg.text());
  }
  return {{"op", call.op},
          {"inputs", std::move(inputs)},
          {"args", call.args},
          {"mesh", mesh.text()},
          {"devices_per_host", 1}};
}

const OpRule* known_rule(std::string_view op, RuleSet nearest) {
  for (const RuleSet set : {nearest, kShardlab, kAutoParallel}) {
    for (const OpRule* rule : rule_table(set).named(op)) {
      if (rule->op == op) return rule;
    }
  }
  return nullptr;
}

// Reads a row of PyTorch's. Ours have no place for outputs that are not computed, whatever PyTorch
// writes there, nor for entries that PyTorch leaves empty ("-"). `metas` are the texts of the
// outputs, "none" for one that is not computed.
Row read_row(std::string_view text, const nlohmann::json& metas) {
  const auto [outputs, inputs] = split_sides("row", text);
  std::string kept;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const bool computed = i >= metas.size() || metas[i] != "none";
    if (computed && outputs[i] != "-") kept += (kept.empty() ? "" : ",") + std::string(outputs[i]);
  }
  kept += "|";
  const std::size_t begin = kept.size();
  for (const std::string_view entry : inputs) {
    if (entry != "-") kept += (kept.size() > begin ? "," : "") + std::string(entry);
  }
  return parse_row(kept).row;
}

// Reads "S(0);R|S(0)", which lists the layouts of the inputs before those of the outputs.
FollowCandidate read_candidate(std::string_view text, int mesh_ndim) {
  const std::size_t bar = std::min(text.find('|'), text.size() - 1);
  const auto layouts = [&](std::string_view side) {
    std::vector<Placements> out;
    while (!side.empty()) {
      const std::size_t end = std::min(side.find(';'), side.size());
      out.push_back(Layout::parse(side.substr(0, end), mesh_ndim).placements);
      side.remove_prefix(std::min(end + 1, side.size()));
    }
    return out;
  };
  return {.outputs = layouts(text.substr(bar + 1)), .inputs = layouts(text.substr(0, bar))};
}

}  // namespace

TorchRules::TorchRules(std::shared_ptr<TorchWorker> worker, RuleSet nearest)
    : worker_(std::move(worker)) {
  for (const auto& [op, facts] : worker_->hello().at("ops").items()) {
    OpRule& rule = rules_[op];
    if (const OpRule* known = known_rule(op, nearest)) rule = *known;
    rule.op = rules_.find(op)->first;
    rule.resolved_for = nearest;
    rule.partial_rows = {};
    rule.rows = nullptr;
    rule.follow = nullptr;
    rule.filter = nullptr;
    rule.excuse = nullptr;
    rule.uneven_in = facts.value("uneven", false) ? kEveryRuleSet : kNoRuleSet;
    if (rule.outputs == nullptr) {
      rule.outputs = {*this, [](RuleSource& source, const OpCall& call) {
                        return static_cast<TorchRules&>(source).outputs_of(call);
                      }};
    }
    const bool has_rows = facts.value("kind", "") == "rows" && !facts.value("filter", false) &&
                          !facts.value("different_mesh", false);
    if (has_rows) {
      ++with_rows_;
      rule.rows = {*this, [](RuleSource& source, const OpCall& call, const OpRule&) {
                     return static_cast<TorchRules&>(source).rows_of(call).rows;
                   }};
    } else {
      rule.follow = {*this, [](RuleSource& source, const OpCall& call, const DeviceMesh& mesh) {
                       return static_cast<TorchRules&>(source).candidates_of(call, mesh);
                     }};
    }
  }
}

std::string TorchRules::text() const { return "PyTorch " + worker_->hello().value("torch", ""); }

const OpRule& TorchRules::rule(std::string_view op) {
  if (const auto found = rules_.find(op); found != rules_.end()) return found->second;
  // A short name stands for the op that our rule sets mean by it.
  for (const RuleSet set : {RuleSet(kNewestRelease), RuleSet(kReferenceRelease), kShardlab}) {
    const OpRule* rule = rule_table(set).find(op);
    if (rule == nullptr) continue;
    if (const auto found = rules_.find(rule->op); found != rules_.end()) return found->second;
  }
  for (const std::string& name : {"aten." + std::string(op), "aten." + std::string(op) + ".default",
                                  std::string(op) + ".default"}) {
    if (const auto found = rules_.find(name); found != rules_.end()) return found->second;
  }
  std::vector<std::string_view> all = ops();
  throw InputError("PyTorch " + worker_->hello().value("torch", "") +
                   " has no sharding strategy for \"" + std::string(op) + "\"" +
                   did_you_mean(op, all));
}

std::vector<std::string_view> TorchRules::ops() {
  std::vector<std::string_view> names;
  for (const auto& [name, rule] : rules_) names.push_back(name);
  return names;
}

const TorchRules::RowsAnswer& TorchRules::rows_of(const OpCall& call) {
  const OpCall* one = &call;
  prepare({&one, 1});
  const std::lock_guard guard(lock_);
  const RowsAnswer& answer = rows_.at(rows_question(call, rule(call.op).is_foreach()).dump());
  if (!answer.error.empty()) throw InputError(call.op + ": " + answer.error);
  return answer;
}

void TorchRules::prepare(std::span<const OpCall* const> calls) {
  const std::lock_guard asking(asking_);
  nlohmann::json questions = nlohmann::json::array();
  std::vector<std::string> keys;
  std::set<std::string> asked;
  {
    const std::lock_guard guard(lock_);
    for (const OpCall* call : calls) {
      const auto found = rules_.find(call->op);
      if (found == rules_.end() || found->second.rows == nullptr) continue;
      nlohmann::json question = rows_question(*call, found->second.is_foreach());
      std::string key = question.dump();
      if (rows_.contains(key) || !asked.insert(key).second) continue;
      questions.push_back(std::move(question));
      keys.push_back(std::move(key));
    }
  }
  if (keys.empty()) return;
  std::vector<RowsAnswer> answers(keys.size());
  const auto take = [&](std::size_t i, const nlohmann::json& message) {
    RowsAnswer& answer = answers.at(i);
    if (message.contains("error")) {
      answer.error = describe_python_error(message["error"]);
      return;
    }
    answer.error.clear();
    const nlohmann::json& ok = message.at("ok");
    const nlohmann::json& own = ok.contains("children") ? ok.at("children").at(0) : ok;
    try {
      for (const nlohmann::json& text : own.at("rows")) {
        answer.rows.push_back(read_row(text.get<std::string>(), own.at("outputs")));
      }
      for (const nlohmann::json& text : own.at("outputs")) {
        if (text != "none") answer.outputs.push_back(TensorMeta::parse(text.get<std::string>()));
      }
    } catch (const TextError& error) {
      answer.error =
          std::string("PyTorch lists a row that shardlab has no placement for: ") + error.what();
    }
  };
  worker_->ask({{"do", "rows"}, {"calls", std::move(questions)}}, keys.size(), take);
  const std::lock_guard guard(lock_);
  for (std::size_t i = 0; i < keys.size(); ++i) rows_[keys[i]] = std::move(answers[i]);
}

std::vector<TensorMeta> TorchRules::outputs_of(const OpCall& call) {
  if (rule(call.op).rows != nullptr) return rows_of(call).outputs;
  throw InputError(call.op + ": the shapes of its outputs are not known");
}

std::vector<FollowCandidate> TorchRules::candidates_of(const OpCall& call, const DeviceMesh& mesh) {
  nlohmann::json question = candidates_question(call, mesh, rule(call.op).is_foreach());
  const std::string key = question.dump();
  nlohmann::json answer;
  {
    const std::lock_guard guard(lock_);
    if (const auto found = candidates_.find(key); found != candidates_.end()) {
      answer = found->second;
    }
  }
  if (answer.is_null()) {
    worker_->ask({{"do", "candidates"}, {"questions", nlohmann::json::array({question})}}, 1,
                 [&](std::size_t, const nlohmann::json& message) { answer = message; });
    const std::lock_guard guard(lock_);
    candidates_.emplace(key, answer);
  }
  if (answer.contains("error")) {
    throw InputError(call.op + ": " + describe_python_error(answer["error"]));
  }
  const nlohmann::json& ok = answer.at("ok");
  if (ok.contains("error")) {
    throw InputError(call.op + ": PyTorch says " + ok["error"].get<std::string>());
  }
  const nlohmann::json& own = ok.contains("children") ? ok.at("children").at(0) : ok;
  std::vector<FollowCandidate> candidates;
  try {
    for (const nlohmann::json& text : own.at("list")) {
      candidates.push_back(read_candidate(text.get<std::string>(), mesh.ndim()));
    }
  } catch (const TextError& error) {
    throw InputError(
        call.op + ": PyTorch lists a candidate that shardlab has no layout for: " + error.what());
  }
  return candidates;
}

}  // namespace shardlab
