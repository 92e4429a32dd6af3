#include "runner/torch/torch_rules.h"

#include <algorithm>
#include <set>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"
#include "runner/choices/question_text.h"
#include "strategies/rules/known_rule.h"
#include "strategies/rules/op_schemas.h"
#include "strategies/rules/rule_table.h"
#include "strategies/rules/rule_text.h"

namespace shardlab {
namespace {

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

// Whether the op gives a truth value, which is no tensor (equal). PyTorch's rows have no entry for
// it, so its own candidates are taken.
bool gives_truth(std::string_view op) {
  const std::optional<OpSchema> schema = find_op_schema(op);
  return schema && schema->text.ends_with("-> bool");
}

// Which outputs are computed, as far as rows depend on it: "1011".
std::string kept_outputs(const nlohmann::json& answer) {
  std::string kept;
  for (const nlohmann::json& text : answer.at("outputs")) kept += text == "none" ? '0' : '1';
  return kept;
}

// Whether the op makes a tensor of none, as full does. A program holds such ops, and PyTorch runs
// them without DTensor, whatever its tables say, so that it cannot be asked about them.
bool takes_no_tensor(std::string_view op) {
  const std::optional<OpSchema> schema = find_op_schema(op);
  return schema && std::ranges::none_of(schema->arguments, &SchemaArgument::is_tensor);
}

}  // namespace

TorchRules::TorchRules(std::shared_ptr<TorchWorker> worker, RuleSet nearest,
                       std::shared_ptr<TorchDecisions> decisions)
    : worker_(std::move(worker)), decisions_(std::move(decisions)) {
  for (const auto& [op, facts] : worker_->hello().at("ops").items()) {
    if (takes_no_tensor(op)) continue;
    OpRule& rule = rules_[op];
    if (const OpRule* known = known_rule(op, nearest)) rule = *known;
    rule.op = rules_.find(op)->first;
    rule.resolved_for = nearest;
    rule.partial_rows = {};
    rule.rows = nullptr;
    rule.follow = nullptr;
    rule.filter = nullptr;
    rule.uneven_in = facts.value("uneven", false) ? kEveryRuleSet : kNoRuleSet;
    if (rule.outputs == nullptr) {
      rule.outputs = {*this, [](RuleSource& source, const OpCall& call) {
                        return static_cast<TorchRules&>(source).outputs_of(call);
                      }};
    }
    const bool has_rows = facts.value("kind", "") == "rows" && !facts.value("filter", false) &&
                          !facts.value("different_mesh", false) && !gives_truth(op);
    if (has_rows && !decisions_->takes_all()) {
      rule.rows = {*this, [](RuleSource& source, const OpCall& call, const OpRule&) {
                     return *static_cast<TorchRules&>(source).rows_of(call).rows;
                   }};
    } else {
      ask_for_candidates(rule);
    }
  }
  // PyTorch runs the steps of some ops for which it has no entry of its own, such as l1_loss.
  for (const OpRule& known : rule_table(nearest).rules()) {
    if (rules_.contains(known.op) || takes_no_tensor(known.op)) continue;
    OpRule& rule = rules_[std::string(known.op)];
    rule = known;
    rule.op = rules_.find(known.op)->first;
    rule.filter = nullptr;
    rule.partial_rows = {};
    ask_for_candidates(rule);
  }
}

void TorchRules::ask_for_candidates(OpRule& rule) {
  rule.rows = nullptr;
  rule.follow = {*this, [](RuleSource& source, const OpCall& call, const DeviceMesh& mesh) {
                   return static_cast<TorchRules&>(source).candidates_of(call, mesh);
                 }};
}

void TorchRules::leave_all_to_decisions() {
  decisions_->take_all();
  for (auto& [op, rule] : rules_) ask_for_candidates(rule);
}

TorchRules::Levels TorchRules::levels() const {
  Levels levels;
  for (const auto& [op, rule] : rules_) {
    auto& level = decisions_->takes_all() ? levels.decisions
                  : rule.rows != nullptr  ? levels.rows
                                          : levels.candidates;
    level.push_back(op);
  }
  return levels;
}

std::string TorchRules::text() const { return "PyTorch " + worker_->hello().value("torch", ""); }

const OpRule& TorchRules::rule(std::string_view op) {
  if (const auto found = rules_.find(op); found != rules_.end()) return found->second;
  // A short name stands for the op that our rule sets mean by it.
  for (const RuleSet set : {RuleSet(kNewestRelease), RuleSet(kReferenceRelease), kShardlab}) {
    const std::vector<const OpRule*> named = rule_table(set).named(op);
    if (named.empty()) continue;
    expect_one_overload(op, named);
    if (const auto found = rules_.find(named.front()->op); found != rules_.end())
      return found->second;
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
  const RowsAnswer& answer = rows_.at(rows_question(call).dump());
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
      nlohmann::json question = rows_question(*call);
      std::string key = question.dump();
      if (rows_.contains(key) || !asked.insert(key).second) continue;
      questions.push_back(std::move(question));
      keys.push_back(std::move(key));
    }
  }
  if (keys.empty()) return;
  std::vector<RowsAnswer> answers(keys.size());
  const std::unique_ptr<Progress> progress =
      progress_ ? progress_("asking " + text() + " for rows:", keys.size()) : nullptr;
  const auto take = [&](std::size_t i, const nlohmann::json& message) {
    if (progress) progress->advance();
    RowsAnswer& answer = answers.at(i);
    if (message.contains("error")) {
      answer.error = describe_python_error(message["error"]);
      return;
    }
    answer.error.clear();
    const nlohmann::json& ok = message.at("ok");
    const nlohmann::json& own = ok.contains("children") ? ok.at("children").at(0) : ok;
    try {
      std::shared_ptr<const Rows>& rows = distinct_rows_[kept_outputs(own) + own.at("rows").dump()];
      if (!rows) {
        Rows read;
        for (const nlohmann::json& text : own.at("rows")) {
          read.push_back(read_row(text.get<std::string>(), own.at("outputs")));
        }
        rows = std::make_shared<const Rows>(std::move(read));
      }
      answer.rows = rows;
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
  if (decisions_->takes_all()) return decisions_->candidates(call, mesh);
  nlohmann::json question = decision_question(call, mesh, 1);
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
      candidates.push_back(parse_candidate_line(text.get<std::string>(), mesh.ndim()));
    }
  } catch (const TextError& error) {
    throw InputError(
        call.op + ": PyTorch lists a candidate that shardlab has no layout for: " + error.what());
  }
  return candidates;
}

}  // namespace shardlab
