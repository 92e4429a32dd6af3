// The kinds of checks that a case (case.h) can hold. Each kind has a function that reads a check
// and a class, derived from Check, that runs it. To add one, write both in a file
// case_checks_<topic>.cpp and add the kind to all_check_kinds().
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/error.h"
#include "costmodel/base/parse_at.h"
#include "strategies/cases/case.h"
#include "strategies/select/evaluator.h"

namespace shardlab::case_checks {

// A stack as the case's file gives it.
struct StackChoice {
  nlohmann::json json;  // a name, or an object
  JsonPlace place;
  [[nodiscard]] std::string label() const;  // dtensor-v3, or dtensor-v3{planner=graph}
};

// The mesh, tensor, topology and stacks that a check is about. The setup gives the defaults; a
// check may replace them.
struct Scene {
  std::optional<DeviceMesh> mesh;
  std::optional<TensorMeta> tensor;
  std::string topology = "h100";
  std::optional<std::int64_t> devices_per_host;
  std::vector<StackChoice> stacks;
  bool pins_stack = false;

  [[nodiscard]] static Scene read(ObjectReader& reader, const Scene& outer);
};

// What a check's topology is where it differs from the setup's: ", 8 devices per host"; "" where it
// does not.
[[nodiscard]] std::string differing_hosts(const Scene& scene, const Scene& setup);
[[nodiscard]] std::vector<std::string> read_texts(const nlohmann::json& json,
                                                  const JsonPlace& place);
// The mesh of the scene. Throws ConfigError if there is none.
[[nodiscard]] const DeviceMesh& mesh_of(const Scene& scene, const JsonPlace& place);
[[nodiscard]] const TensorMeta& tensor_of(const Scene& scene, const JsonPlace& place);

// The answers that were asked for, by key, and the price, if the check has one.
struct Observation {
  nlohmann::json answers = nlohmann::json::object();
  std::optional<double> value;
  // These are shown instead of the compared values, unless they are empty.
  std::string shown_expected;
  std::string shown_got;
};

// What a check may use while it runs. The evaluators are kept for the later checks of the case.
class Bench {
 public:
  explicit Bench(const CaseSources& sources) : sources_(sources) {}

  [[nodiscard]] StackEvaluator& evaluator(const StackChoice& stack, const Scene& scene);
  [[nodiscard]] StackEvaluator& evaluator() const { return *current_; }
  void use(StackEvaluator* evaluator, std::string stack) {
    current_ = evaluator;
    stack_ = std::move(stack);
  }
  [[nodiscard]] const std::string& stack() const { return stack_; }

  std::map<std::string, double, std::less<>> values;  // prices, by the name of their check
  std::vector<SelectView> selections;
  std::vector<PlanView> plans;

 private:
  const CaseSources& sources_;
  std::map<std::string, std::unique_ptr<StackEvaluator>> evaluators_;
  StackEvaluator* current_ = nullptr;
  std::string stack_;
};

class Check {
 public:
  Check() = default;
  Check(const Check&) = delete;
  Check& operator=(const Check&) = delete;
  virtual ~Check() = default;

  [[nodiscard]] virtual std::string label() const = 0;
  [[nodiscard]] virtual bool uses_stack() const { return true; }
  // Answers the check. May throw TextError and InputError, whose message is the answer to "error".
  [[nodiscard]] virtual Observation observe(Bench& bench,
                                            const std::set<std::string>& asked) const = 0;
};

enum class Match : std::uint8_t {
  // Numbers are equal to the digits stated, arrays by element, objects by the expected keys.
  kEqual,
  kContains,  // a text that contains the expected one; "" expects no text at all
  kIncludes,  // an array holds all the expected elements
  kLacks,     // an array holds none of the expected elements
};

struct AnswerKey {
  std::string_view key;
  Match match = Match::kEqual;
};

// What a check is read from. The function that reads the check fills in the scene.
struct CheckSource {
  const nlohmann::json& json;
  JsonPlace place;
  const Scene& setup;
  const std::set<std::string>& names;  // names of the earlier checks that have a price
  Scene& scene;
};

struct CheckKind {
  std::string_view name;
  std::span<const AnswerKey> answers;
  bool has_price = false;  // whether a check of this kind may be named in a relation
  std::unique_ptr<Check> (*read)(const CheckSource& source) = nullptr;
};

[[nodiscard]] std::span<const CheckKind> all_check_kinds();

// The kinds, which case_checks_plan.cpp, _select.cpp, _sweep.cpp, _mesh.cpp, _simulate.cpp,
// _execute.cpp and _solve.cpp define.
extern const CheckKind kPlanKind;
extern const CheckKind kStepsKind;
extern const CheckKind kRelationKind;
extern const CheckKind kSelectKind;
extern const CheckKind kPolicyKind;
extern const CheckKind kRulesKind;
extern const CheckKind kSweepKind;
extern const CheckKind kMeshKind;
extern const CheckKind kSimulateKind;
extern const CheckKind kExecuteKind;
extern const CheckKind kSolveKind;
extern const CheckKind kLayoutKind;
extern const CheckKind kLocalKind;
extern const CheckKind kChunksKind;

// One check of a file, ready to run.
struct PlannedCheck {
  const CheckKind* kind = nullptr;
  std::string name;  // if it is empty, the check's label is used instead
  Scene scene;
  std::unique_ptr<Check> check;
  nlohmann::json expect = nlohmann::json::object();
  int digits = 17;
};

// The checks that show the thread's subject, and the verdict expected of each release.
struct Releases {
  bool is_fault = true;  // false for a behaviour
  std::vector<std::shared_ptr<const PlannedCheck>> checks;
  std::vector<std::pair<StackChoice, CaseVerdict>> expected;
};

// Whether an answer is the expected one.
[[nodiscard]] bool matches(Match match, const nlohmann::json& expected, const nlohmann::json& got,
                           int digits);

}  // namespace shardlab::case_checks
