// shardlab rules: proves sharding rules on virtual ranks.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "costmodel/base/parallel.h"
#include "costmodel/base/text.h"
#include "runner/base/terminal.h"
#include "runner/base/text_table.h"
#include "runner/commands/commands.h"
#include "runner/config/configs.h"
#include "runner/config/placements.h"
#include "runner/session/layout_names.h"
#include "runner/session/long_loop.h"
#include "sim/mesh.h"
#include "strategies/proof/rule_proof.h"
#include "strategies/rules/rule_table.h"

namespace shardlab {
namespace {

struct RulesArguments {
  std::vector<std::string> ops;
  std::string rule_set = "shardlab";
  std::vector<std::string> meshes;
  std::vector<std::string> placements;
  int samples = RuleProofOptions().data_sets;
  bool fail_on_unsound = false;
};

// One of our rule sets, or the rules of a live PyTorch.
Rules rule_set_of(const RulesArguments& arguments, const Session& session) {
  if (arguments.rule_set == kNewestDTensor) return RuleSet(kNewestRelease);
  if (const auto set = from_name<RuleSet>(arguments.rule_set)) return *set;
  if (arguments.rule_set.starts_with("torch")) {
    Stack stack = session.store().stack(arguments.rule_set);
    if (stack.rules.source() != nullptr) return stack.rules;
  }
  throw InputError("--rule-set: found \"" + arguments.rule_set + "\"" +
                   did_you_mean(arguments.rule_set, all_names<RuleSet>()) + "; valid: dtensor, " +
                   valid_names<RuleSet>() + ", torch:PYTHON");
}

RuleProofOptions options_of(const RulesArguments& arguments) {
  RuleProofOptions options;
  options.data_sets = arguments.samples;
  for (const std::string& name : arguments.placements) {
    options.registered.push_back(&placement_entry(name, "--placement"));
  }
  if (arguments.meshes.empty()) return options;
  options.mesh_sizes.clear();
  for (const std::string& text : arguments.meshes) {
    const DeviceMesh mesh = parse_option("--mesh", [&] { return DeviceMesh::parse(text); });
    if (mesh.ndim() != 1 || mesh.size() < 2 || mesh.size() > 8) {
      throw InputError("--mesh: found " + text + "; valid: one mesh dim of 2 to 8 ranks");
    }
    options.mesh_sizes.push_back(mesh.size());
  }
  return options;
}

// The rules to prove: those of the named ops, or all that can be proved.
std::vector<const OpRule*> rules_of(const RulesArguments& arguments, const Rules& set) {
  std::vector<const OpRule*> rules;
  for (const std::string& op : arguments.ops) {
    const OpRule& rule = find_op_rule(op, set);
    if (!is_provable(rule)) {
      throw InputError(std::string(rule.op) +
                       ": the op has no reference kernel or no sample calls, so its rules can't be "
                       "proved; valid: the ops that `shardlab rules` lists");
    }
    if (std::find(rules.begin(), rules.end(), &rule) == rules.end()) rules.push_back(&rule);
  }
  if (!rules.empty()) return rules;
  const auto add = [&](const OpRule& rule) {
    if (is_provable(rule)) rules.push_back(&rule);
  };
  if (RuleSource* const source = set.source()) {
    for (const std::string_view op : source->ops()) add(source->rule(op));
  } else {
    for (const OpRule& rule : rule_table(set.set()).rules()) add(rule);
  }
  std::sort(rules.begin(), rules.end(),
            [](const OpRule* a, const OpRule* b) { return a->op < b->op; });
  return rules;
}

nlohmann::json finding_json(const RuleFinding& finding) {
  nlohmann::json json = {{"row", finding.row},
                         {"call", finding.call},
                         {"mesh", std::to_string(finding.mesh)},
                         {"calls", finding.calls}};
  if (!finding.detail.empty()) json["found"] = finding.detail;
  if (!finding.reason.empty()) json["reason"] = finding.reason;
  return json;
}

nlohmann::json findings_json(const std::vector<RuleFinding>& findings) {
  nlohmann::json json = nlohmann::json::array();
  for (const RuleFinding& finding : findings) json.push_back(finding_json(finding));
  return json;
}

struct Totals {
  std::size_t accepted = 0;
  std::size_t combinations = 0;
  std::size_t unsound = 0;
  std::size_t missing = 0;
  std::size_t omissions = 0;
};

Totals totals_of(const std::vector<RuleProof>& proofs) {
  Totals totals;
  for (const RuleProof& proof : proofs) {
    totals.accepted += proof.accepted;
    totals.combinations += proof.combinations;
    totals.unsound += proof.unsound.size();
    totals.missing += proof.missing.size();
    totals.omissions += proof.known_omissions.size();
  }
  return totals;
}

// "P(sum) | S(1), S(0)", the outputs and the inputs of a row.
std::string row_text(const std::string& row, const LayoutNames& names) {
  constexpr std::string_view kBar = " | ";
  const std::size_t bar = row.find(kBar);
  if (bar == std::string::npos) return names.of_texts(row);
  return names.of_texts(row.substr(0, bar)) + std::string(kBar) +
         names.of_texts(row.substr(bar + kBar.size()));
}

std::string proofs_text(const std::vector<RuleProof>& proofs, const RulesArguments& arguments,
                        const LayoutNames& names, const TextStyle& style) {
  const Totals totals = totals_of(proofs);
  std::string text = "rule set " + arguments.rule_set + ": " + std::to_string(proofs.size()) +
                     (proofs.size() == 1 ? " op, " : " ops, ") + std::to_string(totals.accepted) +
                     " rows, " + std::to_string(totals.unsound) + " unsound, " +
                     std::to_string(totals.missing) + " missing, " +
                     std::to_string(totals.omissions) + " known omissions (of " +
                     std::to_string(totals.combinations) + " combinations tried)\n";
  const bool detailed = !arguments.ops.empty();
  TextTable table(style, {"op", "rows", "unsound", "missing", "omissions"});
  for (const RuleProof& proof : proofs) {
    if (!detailed && proof.unsound.empty() && proof.missing.empty()) continue;
    table.add({proof.op, std::to_string(proof.accepted), std::to_string(proof.unsound.size()),
               std::to_string(proof.missing.size()), std::to_string(proof.known_omissions.size())});
    if (!proof.unsound.empty()) table.paint(2, Tone::kBad);
  }
  if (detailed || totals.unsound + totals.missing > 0) text += table.text();
  const auto add = [&](const RuleProof& proof, std::string_view kind, const RuleFinding& finding) {
    text += "  " + std::string(kind) + " " + proof.op + "  " + row_text(finding.row, names) +
            "\n    " + finding.call + " on " + std::to_string(finding.mesh) + " ranks";
    if (!finding.detail.empty()) text += ": " + finding.detail;
    if (!finding.reason.empty()) text += ": " + finding.reason;
    text += "\n";
  };
  for (const RuleProof& proof : proofs) {
    for (const RuleFinding& finding : proof.unsound) add(proof, "unsound", finding);
    for (const RuleFinding& finding : proof.missing) {
      if (detailed) add(proof, "missing", finding);
    }
    for (const RuleFinding& finding : proof.known_omissions) {
      if (detailed) add(proof, "omitted", finding);
    }
  }
  return text;
}

struct Refusal {
  std::string_view op;
  std::string reason;
};

// Proves the rules. An op whose rules refuse all sample calls is an error if it was named, and is
// listed otherwise: a release of PyTorch has such ops.
std::pair<std::vector<RuleProof>, std::vector<Refusal>> prove_all(
    const std::vector<const OpRule*>& rules, RuleProofOptions options,
    const RulesArguments& arguments, Session& session) {
  std::vector<RuleProof> proofs(rules.size());
  std::vector<std::string> reasons(rules.size());
  LongLoop loop(session, "ops", rules.size());
  options.stop = loop.stop();
  const std::size_t done = parallel_for(
      rules.size(), session.threads(), [] { return std::make_unique<char>(); },
      [&](char&, std::size_t i) {
        try {
          proofs[i] = prove_rule(*rules[i], options);
        } catch (const InputError& error) {
          if (!arguments.ops.empty()) throw;
          reasons[i] = error.what();
        }
        if (proofs[i].complete) loop.advance();
      },
      loop.stop());
  std::vector<RuleProof> proved;
  std::vector<Refusal> refusals;
  for (std::size_t i = 0; i < done; ++i) {
    if (!proofs[i].complete) continue;
    if (reasons[i].empty()) {
      proved.push_back(std::move(proofs[i]));
    } else {
      refusals.push_back({rules[i]->op, std::move(reasons[i])});
    }
  }
  return {std::move(proved), std::move(refusals)};
}

void run_rules(const RulesArguments& arguments, Session& session) {
  const Rules set = rule_set_of(arguments, session);
  const RuleProofOptions options = options_of(arguments);
  const std::vector<const OpRule*> rules = rules_of(arguments, set);
  const auto [proofs, refusals] = prove_all(rules, options, arguments, session);
  const Totals totals = totals_of(proofs);
  if (session.json()) {
    nlohmann::json ops = nlohmann::json::array();
    for (const RuleProof& proof : proofs) {
      ops.push_back({{"op", proof.op},
                     {"calls", proof.calls},
                     {"combinations", proof.combinations},
                     {"accepted", proof.accepted},
                     {"unsound", findings_json(proof.unsound)},
                     {"missing", findings_json(proof.missing)},
                     {"known_omissions", findings_json(proof.known_omissions)}});
    }
    nlohmann::json refused = nlohmann::json::array();
    for (const Refusal& refusal : refusals) {
      refused.push_back({{"op", refusal.op}, {"reason", refusal.reason}});
    }
    session.print(nlohmann::json{{"rule_set", arguments.rule_set},
                                 {"refused", refused},
                                 {"meshes", options.mesh_sizes},
                                 {"samples", options.data_sets},
                                 {"rows", totals.accepted},
                                 {"combinations", totals.combinations},
                                 {"unsound", totals.unsound},
                                 {"missing", totals.missing},
                                 {"known_omissions", totals.omissions},
                                 {"ops", ops}});
  } else {
    std::string text = proofs_text(proofs, arguments, LayoutNames(session), session.style());
    for (const Refusal& refusal : refusals) text += "  not proved: " + refusal.reason + "\n";
    session.print(text);
  }
  if (arguments.fail_on_unsound && totals.unsound > 0) session.exit_code = kGateSaidNo;
}

}  // namespace

void add_rules_command(const Command& root, Session& session) {
  auto arguments = std::make_shared<RulesArguments>();
  const Command command = root.subcommand(
      "rules",
      "prove sharding rules on virtual ranks\n"
      "It finds rows that compute something wrong, and right combinations that have no row.\n"
      "  shardlab rules aten.mm.default --rule-set dtensor-2.13");
  command.option("ops", arguments->ops, "ops to prove (default: all that have a reference kernel)");
  command
      .option("--rule-set", arguments->rule_set,
              "dtensor (the newest), " + valid_names<RuleSet>() +
                  ", or torch:PYTHON: the rules of a live PyTorch")
      .show_default();
  command
      .option("--mesh", arguments->meshes,
              "ranks of the mesh dim, 2 to 8; may be repeated (default: 2 and 3)")
      .repeatable();
  command
      .option(
          "--placement", arguments->placements,
          "prove pointwise ops with samples of this registered placement too; may be repeated: " +
              join(placement_names()))
      .repeatable();
  command.option("--samples", arguments->samples, "data sets that a combination must pass")
      .check(integer_from(1, 1000))
      .show_default();
  command.flag("--fail-on-unsound", arguments->fail_on_unsound, "exit 1 when a row is unsound");
  add_torch_names_option(command, session);
  add_common_options(command, session, {.jobs = true});
  command.runs([arguments, &session] { run_rules(*arguments, session); });
}

}  // namespace shardlab
