// shardlab regress: checks the corpus of historical cases. If one case is named, prints everything
// about that case.
#include <algorithm>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "costmodel/base/parallel.h"
#include "costmodel/base/printable.h"
#include "costmodel/base/text.h"
#include "runner/base/terminal.h"
#include "runner/base/text_table.h"
#include "runner/commands/commands.h"
#include "runner/config/configs.h"
#include "runner/session/long_loop.h"
#include "runner/session/unstoppable_work.h"
#include "strategies/cases/case.h"

namespace shardlab {
namespace {

constexpr std::size_t kColumns = 100;
constexpr std::size_t kShownCandidates = 12;
constexpr std::size_t kShownChecks = 16;
constexpr std::size_t kShownStacks = 8;
constexpr int kPriceDigits = 3;

struct RegressArguments {
  std::vector<std::string> ids;
  std::vector<std::string> files;
  std::string stack;
};

Case read_case(const std::filesystem::path& path) {
  return Case::parse(read_json_file(path), {path.string(), ""});
}

// The cases that the command line names. Names select from the corpus and the given files. Without
// names, all files are run, or the whole corpus if there are no files.
std::vector<Case> chosen_cases(const RegressArguments& arguments, const ConfigStore& store) {
  std::vector<Case> files;
  for (const std::string& file : arguments.files) files.push_back(read_case(file));
  if (arguments.ids.empty() && !files.empty()) return files;
  std::vector<Case> all;
  for (const std::string& name : store.names(ConfigKind::kRegression)) {
    all.push_back(read_case(store.find(ConfigKind::kRegression, name)));
  }
  all.insert(all.end(), files.begin(), files.end());
  if (arguments.ids.empty()) return all;
  std::vector<bool> wanted(all.size(), false);
  for (const std::string& id : arguments.ids) {
    bool found = false;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!all[i].is_named(id)) continue;
      wanted[i] = true;
      found = true;
    }
    if (found) continue;
    std::vector<std::string_view> valid;
    for (const Case& one : all) valid.push_back(one.id());
    throw InputError("unknown case \"" + id + "\"" + did_you_mean(id, valid) +
                     "; valid: the number of a thread, or " + join(valid));
  }
  std::vector<Case> chosen;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (wanted[i]) chosen.push_back(all[i]);
  }
  return chosen;
}

// Loads the stacks and topologies that cases name. A stack that is written inside a case has a
// shipped stack as its base.
CaseSources sources_from(const ConfigStore& store) {
  const auto named = [&store](const std::string& name, const JsonPlace& place) {
    try {
      return store.stack(name);
    } catch (const InputError& error) {
      place.fail(error.what());
    }
  };
  return {.stack =
              [named](const nlohmann::json& choice, const JsonPlace& place) {
                if (choice.is_string()) return named(choice.get<std::string>(), place);
                return Stack::from_json(choice, place, [&](const std::string& base) {
                  return named(base, place.at("base")).to_json();
                });
              },
          .topology =
              [&store](const std::string& name, std::optional<std::int64_t> devices_per_host) {
                return devices_per_host ? store.topology(name, *devices_per_host)
                                        : store.topology(name);
              }};
}

nlohmann::json report_json(const CaseReport& report) {
  nlohmann::json checks = nlohmann::json::array();
  for (const CheckOutcome& check : report.checks) {
    checks.push_back({{"what", check.what()},
                      {"expected", check.expected},
                      {"got", check.got},
                      {"ok", check.ok}});
  }
  nlohmann::json releases = nlohmann::json::array();
  for (const StackVerdict& release : report.releases) {
    releases.push_back(
        {{"stack", release.stack}, {"verdict", to_string(release.verdict)}, {"ok", release.ok()}});
    if (release.expected) releases.back()["expected"] = to_string(*release.expected);
  }
  return {{"id", report.id},
          {"title", report.title},
          {"status", to_string(report.status)},
          {"checks", checks},
          {"releases", releases}};
}

std::string value_text(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) {
    return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  std::string out;
  for (const nlohmann::json& element : value)
    out += (out.empty() ? "" : ", ") + value_text(element);
  return "[" + out + "]";
}

std::string cut(std::string text, std::size_t width) {
  if (text.size() > width) text = text.substr(0, width - 3) + "...";
  return text;
}

// Breaks a text into lines at blanks, or after "->" if there is no blank. All lines but the first
// are indented.
std::string wrapped(std::string_view words, const std::string& indent, std::size_t hanging = 0) {
  const std::string shown = printable(words);
  std::string_view text = shown;
  std::string out;
  std::string margin = indent;
  while (margin.size() + text.size() > kColumns) {
    const std::size_t room = kColumns - margin.size();
    std::size_t end = text.rfind(' ', room);
    std::size_t next = end + 1;
    if (end == std::string_view::npos || end == 0) {
      end = text.rfind("->", room - 2);
      if (end == std::string_view::npos || end == 0) break;
      end += 2;
      next = end;
    }
    std::string line = margin + std::string(text.substr(0, end));
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
    text = text.substr(next);
    margin = indent + std::string(hanging, ' ');
  }
  return out + margin + std::string(text) + "\n";
}

template <class Item>
bool contains(const std::vector<Item>& items, const Item& item) {
  return std::find(items.begin(), items.end(), item) != items.end();
}

std::string failures_text(const CaseReport& report) {
  std::string out;
  for (const CheckOutcome& check : report.checks) {
    if (check.ok) continue;
    out += "  " + printable(check.what()) + "\n    expected " +
           printable(value_text(check.expected)) + "\n    got      " +
           printable(value_text(check.got)) + "\n";
  }
  for (const StackVerdict& release : report.releases) {
    if (release.ok()) continue;
    out += "  what became of it in " + printable(release.stack) + "\n    expected " +
           std::string(to_string(*release.expected)) + "\n    got      " +
           std::string(to_string(release.verdict)) + "\n";
  }
  return out;
}

// "still there in dtensor-2.13; mended in dtensor-2.14, dtensor-2.15", or nothing.
std::string releases_text(const CaseReport& report) {
  std::string out;
  for (const auto& [verdict, name] : EnumNames<CaseVerdict>::kNames) {
    std::vector<std::string> stacks;
    for (const StackVerdict& release : report.releases) {
      if (release.verdict == verdict) stacks.push_back(release.stack);
    }
    if (stacks.empty()) continue;
    out += (out.empty() ? "" : "; ") + std::string(name) + " in " + join(stacks);
  }
  return out;
}

std::string status_text(CaseStatus status, const TextStyle& style) {
  return style.painted(status == CaseStatus::kFail ? Tone::kBad : Tone::kGood, to_string(status));
}

std::string headline(const CaseReport& report, const TextStyle& style) {
  const std::string checks =
      std::to_string(report.checks.size()) + (report.checks.size() == 1 ? " check" : " checks");
  const std::string id = printable(report.id) + std::string(report.id.size() < 3 ? 0 : 2, ' ');
  return id + status_text(report.status, style) + "  " +
         std::string(checks.size() < 10 ? 10 - checks.size() : 0, ' ') + checks + "  " +
         printable(report.title) + "\n";
}

// One line per stack: how many cases it answers as in the thread, and which faults are still there.
std::string verdicts_text(const std::vector<CaseReport>& reports) {
  std::vector<std::string> stacks;
  for (const CaseReport& report : reports) {
    for (const StackVerdict& release : report.releases) {
      if (!contains(stacks, release.stack)) stacks.push_back(release.stack);
    }
  }
  std::string out;
  for (const std::string& stack : stacks) {
    std::string line;
    for (const auto& [verdict, name] : EnumNames<CaseVerdict>::kNames) {
      std::vector<std::string> ids;
      for (const CaseReport& report : reports) {
        for (const StackVerdict& release : report.releases) {
          if (release.stack == stack && release.verdict == verdict) ids.push_back(report.id);
        }
      }
      if (ids.empty()) continue;
      const bool is_named = verdict == CaseVerdict::kStillThere || verdict == CaseVerdict::kChanged;
      line += (line.empty() ? "" : "; ") + std::to_string(ids.size()) + " " + std::string(name) +
              (is_named ? " (" + join(ids) + ")" : "");
    }
    out += wrapped(stack + ":  " + line, "", 2);
  }
  return out;
}

std::string summary_text(const std::vector<CaseReport>& reports, const TextStyle& style) {
  std::string out;
  for (const CaseReport& report : reports) {
    out += headline(report, style) + failures_text(report);
  }
  return out + verdicts_text(reports);
}

// -- The story of one case ---------------------------------------------------------------

// The prefix that all stack names share. The table shows it only once.
std::string common_prefix(const std::vector<std::string>& stacks) {
  const std::string prefix = "dtensor-";
  const bool all = std::all_of(stacks.begin(), stacks.end(), [&](const std::string& stack) {
    return stack.starts_with(prefix) && stack.size() > prefix.size();
  });
  return all && stacks.size() > 1 ? prefix : "";
}

std::string price_text(double us) {
  return us == std::numeric_limits<double>::infinity() ? "inf" : format_fixed(us, kPriceDigits);
}

struct SelectTable {
  std::string question;
  std::vector<const SelectView*> views;
};

// One row per candidate and one column per stack. The rows below them name the chosen candidate for
// each order of the candidates.
std::string select_table_text(const SelectTable& table, const TextStyle& style) {
  std::vector<std::string> stacks;
  std::vector<std::string> orders;
  for (const SelectView* view : table.views) {
    if (!contains(stacks, view->stack)) stacks.push_back(view->stack);
    if (!contains(orders, view->order)) orders.push_back(view->order);
  }
  stacks.resize(std::min(stacks.size(), kShownStacks));
  const auto view_of = [&](const std::string& stack, const std::string& order) {
    const auto it = std::find_if(table.views.begin(), table.views.end(), [&](const SelectView* v) {
      return v->stack == stack && (order.empty() || v->order == order);
    });
    return it == table.views.end() ? nullptr : *it;
  };
  const auto total_of = [](const SelectView& view, const std::string& candidate) {
    const auto it = std::find_if(view.totals.begin(), view.totals.end(),
                                 [&](const auto& total) { return total.first == candidate; });
    return it == view.totals.end() ? std::optional<double>() : it->second;
  };
  // Candidates are numbered in the order of the first view. If there are many, only the cheapest
  // are shown.
  std::vector<std::string> all;
  for (const SelectView* view : table.views) {
    for (const auto& [text, unused] : view->totals) {
      if (!contains(all, text)) all.push_back(text);
    }
  }
  std::vector<std::string> shown = all;
  if (shown.size() > kShownCandidates) {
    const SelectView& first = *table.views.front();
    const auto total = [&](const std::string& candidate) {
      return total_of(first, candidate).value_or(std::numeric_limits<double>::infinity());
    };
    std::stable_sort(shown.begin(), shown.end(),
                     [&](const auto& a, const auto& b) { return total(a) < total(b); });
    shown.resize(kShownCandidates / 2);
  }
  const auto number = [&](const std::string& candidate) {
    const auto it = std::find(all.begin(), all.end(), candidate);
    return it == all.end() ? std::string("-") : std::to_string(it - all.begin());
  };
  const std::string prefix = common_prefix(stacks);
  std::vector<std::string> header = {"", prefix.empty() ? "outputs|inputs" : "us under " + prefix};
  for (const std::string& stack : stacks) header.push_back(stack.substr(prefix.size()));
  TextTable text(style, header);
  for (const std::string& candidate : shown) {
    std::vector<std::string> row = {number(candidate), candidate};
    for (const std::string& stack : stacks) {
      const SelectView& view = *view_of(stack, "");
      const std::optional<double> total = total_of(view, candidate);
      const bool tied = view.ties.size() > 1 && contains(view.ties, candidate);
      std::string cell = total ? price_text(*total) : "-";
      if (cell != "inf") cell += tied ? "=" : " ";
      row.push_back(cell);
    }
    text.add(row);
  }
  for (const std::string& order : orders) {
    std::vector<std::string> row = {"", "chosen, " + order};
    for (const std::string& stack : stacks) {
      const SelectView* view = view_of(stack, order);
      row.push_back(view == nullptr ? "" : number(view->chosen) + " ");
    }
    text.add(row);
  }
  std::string out = wrapped(
      table.question + (all.size() > shown.size()
                            ? ": " + std::to_string(all.size()) + " candidates, the cheapest are"
                            : ""),
      "");
  return out + text.text("  ");
}

// One heading per question. Stacks with the same plan and price share a line.
std::string plans_text(const std::vector<PlanView>& plans) {
  std::vector<std::string> questions;
  for (const PlanView& plan : plans) {
    if (!contains(questions, plan.question)) questions.push_back(plan.question);
  }
  std::string out;
  for (const std::string& question : questions) {
    struct Line {
      std::string price;
      std::string path;
      std::vector<std::string> stacks;
    };
    std::vector<Line> lines;
    for (const PlanView& plan : plans) {
      if (plan.question != question) continue;
      const bool possible = plan.price_us < std::numeric_limits<double>::infinity();
      const std::string price = possible ? format_double(plan.price_us) + " us" : "impossible";
      auto it = std::find_if(lines.begin(), lines.end(), [&](const Line& line) {
        return line.price == price && line.path == plan.path;
      });
      if (it == lines.end()) it = lines.insert(lines.end(), {price, plan.path, {}});
      if (!contains(it->stacks, plan.stack)) it->stacks.push_back(plan.stack);
    }
    out += wrapped(question, "", 2);
    for (const Line& line : lines) {
      out += wrapped(line.price + "  " + join(line.stacks) + ":  " + line.path, "  ", 2);
    }
  }
  return out;
}

// The checks that no table shows: relations with their numbers, and other checks with the values
// they got.
std::string other_checks_text(const CaseReport& report) {
  std::vector<std::string> lines;
  std::string previous;
  for (const CheckOutcome& check : report.checks) {
    const bool in_tables = check.kind == "select" || check.kind == "plan" || check.kind == "steps";
    if (in_tables || !check.ok) continue;
    if (check.key.empty()) {
      lines.push_back(check.check + ":  " + value_text(check.got));
    } else if (check.check == previous) {
      lines.back() += "; " + check.key + " " + value_text(check.got);
    } else {
      lines.push_back(check.check + ":  " + check.key + " " + value_text(check.got));
    }
    previous = check.check;
  }
  std::string out;
  for (std::size_t i = 0; i < std::min(lines.size(), kShownChecks); ++i) {
    out += wrapped(cut(lines[i], 3 * kColumns), "  ", 4);
  }
  if (lines.size() > kShownChecks) {
    out += "  and " + std::to_string(lines.size() - kShownChecks) + " more\n";
  }
  return out;
}

std::string story_text(const Case& one, const CaseReport& report, const TextStyle& style) {
  std::vector<SelectTable> tables;
  for (const SelectView& view : report.selections) {
    auto it = std::find_if(tables.begin(), tables.end(),
                           [&](const SelectTable& t) { return t.question == view.question; });
    if (it == tables.end()) it = tables.insert(tables.end(), {view.question, {}});
    it->views.push_back(&view);
  }
  std::string out = wrapped(one.id() + "  " + one.title(), "", one.id().size() + 2);
  out += printable(one.source() + "  (figures: " + one.status() + ")") + "\n";
  out += printable(one.setup_text()) + "\n";
  out += wrapped(join(one.story(), " "), "  ");
  for (const SelectTable& table : tables) out += select_table_text(table, style);
  out += plans_text(report.plans);
  out += other_checks_text(report);
  const std::string releases = releases_text(report);
  if (!releases.empty()) out += wrapped("releases:  " + releases, "", 2);
  const auto passed = std::count_if(report.checks.begin(), report.checks.end(),
                                    [](const CheckOutcome& check) { return check.ok; });
  out += status_text(report.status, style) + ": " + std::to_string(passed) + " of " +
         std::to_string(report.checks.size()) + " comparisons hold\n" + failures_text(report);
  return out;
}

// Prints the reports of these cases, and sets the exit code.
void print_reports(const std::vector<Case>& cases, const std::vector<CaseReport>& reports,
                   const RegressArguments& arguments, Session& session) {
  const auto count = [&](CaseStatus status) {
    return std::count_if(reports.begin(), reports.end(),
                         [&](const CaseReport& report) { return report.status == status; });
  };
  const auto failed = count(CaseStatus::kFail);
  if (session.json()) {
    nlohmann::json json = {{"cases", nlohmann::json::array()},
                           {"passed", count(CaseStatus::kPass)},
                           {"failed", failed},
                           {"skipped", 0}};
    for (const CaseReport& report : reports) json["cases"].push_back(report_json(report));
    session.print(json);
  } else if (arguments.ids.empty()) {
    session.print(summary_text(reports, session.style()) +
                  std::to_string(count(CaseStatus::kPass)) + " passed, " + std::to_string(failed) +
                  " failed, 0 skipped\n");
  } else {
    std::string text;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      text += (i > 0 ? "\n" : "") + story_text(cases[i], reports[i], session.style());
    }
    session.print(text);
  }
  if (failed > 0) session.exit_code = kGateSaidNo;
}

void run_regress(const RegressArguments& arguments, Session& session) {
  const ConfigStore store = session.store();
  std::vector<Case> cases = chosen_cases(arguments, store);
  std::optional<std::string> stack;
  if (!arguments.stack.empty()) {
    stack = arguments.stack;
    static_cast<void>(store.stack(
        arguments.stack));  // so that an unknown name is reported once, not for every case
  }
  std::vector<std::optional<CaseReport>> reports(cases.size());
  std::mutex mutex;  // guards `reports` while cases run
  std::vector<std::optional<CaseReport>> known;
  const auto interruption = [&] {
    const std::lock_guard lock(mutex);
    known = reports;
    const auto done = std::count_if(known.begin(), known.end(),
                                    [](const auto& each) { return each.has_value(); });
    return "interrupted after " + std::to_string(done) + " of " + std::to_string(known.size()) +
           " cases";
  };
  const auto print_known = [&] {
    std::vector<Case> done_cases;
    std::vector<CaseReport> done;
    for (std::size_t i = 0; i < known.size(); ++i) {
      if (!known[i]) continue;
      done_cases.push_back(cases[i]);
      done.push_back(*known[i]);
    }
    print_reports(done_cases, done, arguments, session);
  };
  {
    LongLoop loop(session, "cases", cases.size());
    run_unstoppable(session,
                    {.what = "running cases",
                     .interruption = interruption,
                     .print_known = print_known,
                     .stop = loop.stop(),
                     .shows_time = false},
                    [&] {
                      parallel_for(
                          cases.size(), session.threads(),
                          [&] { return std::make_unique<CaseSources>(sources_from(store)); },
                          [&](const CaseSources& sources, std::size_t i) {
                            CaseReport report = cases[i].run(sources, stack);
                            {
                              const std::lock_guard lock(mutex);
                              reports[i] = std::move(report);
                            }
                            loop.advance();
                          });
                    });
  }
  known = std::move(reports);
  print_known();
}

}  // namespace

void add_regress_command(const Command& root, Session& session) {
  auto arguments = std::make_shared<RegressArguments>();
  const Command command =
      root.subcommand("regress",
                      "run the corpus of historical cases; with a case named, tell its story\n"
                      "  shardlab regress R03");
  command.option("ID", arguments->ids,
                 "IDs of cases; R03 stands for R03 and for every R03-SUFFIX, and 172282 for the "
                 "cases of that issue or pull request");
  command.option("--file", arguments->files, "a file with a case of your own; may be repeated")
      .repeatable();
  command
      .option("--stack", arguments->stack,
              "the stack for every check that is not pinned to one: shipped name or path")
      .check(not_empty());
  add_common_options(command, session, {.jobs = true, .sets = true});
  command.runs([arguments, &session] { run_regress(*arguments, session); });
}

}  // namespace shardlab
