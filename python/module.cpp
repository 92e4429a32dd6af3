// The Python module _shardlab: the commands, and prices without a command around them. The package
// shardlab/ around it turns Python's values into words and documents into dicts.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/base/error.h"
#include "costmodel/straggler.h"
#include "runner/base/interrupt.h"
#include "runner/base/version.h"
#include "runner/command_line.h"
#include "runner/config/configs.h"
#include "runner/torch/live_stack.h"
#include "runner/torch/python_cost.h"
#include "strategies/select/evaluator.h"

namespace py = pybind11;

namespace shardlab {
namespace {

// Stacks whose prices come from functions of this process, by name.
class CostStacks final : public StackSource {
 public:
  static CostStacks& all() {
    static CostStacks stacks;
    return stacks;
  }

  // `answer` takes one question of the worker's request `prices` as JSON text, and returns {"ok"}
  // or {"error"} (python/torch_worker/README.md).
  void add(const std::string& name, const std::string& base, int parameters, py::function answer) {
    const auto function =
        std::shared_ptr<py::function>(new py::function(std::move(answer)), [](py::function* owned) {
          const py::gil_scoped_acquire gil;
          delete owned;
        });
    const std::lock_guard lock(lock_);
    stacks_[name] = {base, parameters, [function](const nlohmann::json& question) {
                       const std::string text = question.dump();
                       const py::gil_scoped_acquire gil;
                       return nlohmann::json::parse((*function)(text).cast<std::string>());
                     }};
  }
  void remove(const std::string& name) {
    CostStack removed;  // is destroyed without the lock
    const std::lock_guard lock(lock_);
    const auto found = stacks_.find(name);
    if (found == stacks_.end()) return;
    std::swap(removed, found->second);
    stacks_.erase(found);
  }

  [[nodiscard]] std::optional<Stack> stack(const std::string& name,
                                           const ConfigStore& store) override {
    CostStack found;
    {
      const std::lock_guard lock(lock_);
      const auto at = stacks_.find(name);
      if (at == stacks_.end()) return std::nullopt;
      found = at->second;
    }
    Stack stack = store.stack(found.base);
    if (stack.decisions != nullptr) {
      throw InputError("stack " + found.base +
                       ": a live PyTorch takes no cost function of this process, since it decides "
                       "in a process of its own; valid: the stack of a release, such as "
                       "dtensor-2.15, or the name \"" +
                       found.base + "+cost=FILE.py:FUNCTION\"");
    }
    const std::size_t begin = name.rfind('=') + 1;
    const std::string function = name.substr(begin, name.rfind('#') - begin);
    stack.name = name;
    stack.cost_function = function;
    stack.title += ", with the prices of " + function;
    stack.source = "the function " + function + ", otherwise " + stack.source;
    if (found.parameters == 3) {
      stack.collective_model = choose_function(python_collectives(found.ask, function));
    } else {
      stack.redistribution.semantics =
          priced_by(stack.redistribution.semantics, python_transitions(found.ask, function));
    }
    return stack;
  }
  void prepare(const Stack&, std::span<const Question* const>, const Topology&) override {}
  [[nodiscard]] nlohmann::json details(const Stack&) const override { return nullptr; }
  [[nodiscard]] nlohmann::json provenance() const override { return nullptr; }

 private:
  struct CostStack {
    std::string base;
    int parameters = 3;
    AskPrice ask;
  };
  std::mutex lock_;
  std::map<std::string, CostStack> stacks_;
};

// Exit code and what the command printed to stdout.
std::pair<int, std::string> run(const std::vector<std::string>& words) {
  if (!words.empty() && words.front() == "measure") {
    throw EnvironmentError(
        "measure starts processes of its own, which it can't do here; valid: `shardlab measure` in "
        "a shell");
  }
  // Ctrl-C ends a search early (runner/base/interrupt.h), and is a KeyboardInterrupt then, whatever
  // the search has found.
  const auto raise_if_interrupted = [] {
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  };
  std::pair<int, std::string> result;
  try {
    // Parts of a command that are no search see a signal once they are through.
    const Interrupt interrupt;
    const py::gil_scoped_release others_may_run;
    Session session;
    session.callers_stacks = &CostStacks::all();
    std::ostringstream out;
    session.results = &out;
    result.first = run_command_line(words, session);
    result.second = out.str();
  } catch (...) {
    raise_if_interrupted();
    throw;
  }
  raise_if_interrupted();
  // In a thread that is not Python's main one, the signal is no KeyboardInterrupt.
  if (result.first == kInterrupted) throw EnvironmentError("interrupted by SIGINT");
  return result;
}

// Prices under one stack. Keeps meshes and planners, so that asking again is cheap.
class Pricer {
 public:
  Pricer(const std::string& stack, const std::string& topology,
         const std::vector<std::string>& sets) {
    session_.sets = sets;
    session_.callers_stacks = &CostStacks::all();
    session_.stack_source = &live_;
    const ConfigStore store = session_.store();
    evaluator_ = std::make_unique<StackEvaluator>(store.stack(stack), store.topology(topology));
  }

  [[nodiscard]] std::string stack() const { return evaluator_->stack().name; }

  double price(const std::string& mesh_text, const std::string& tensor, const std::string& from,
               const std::string& to) {
    const DeviceMesh& mesh = mesh_of(mesh_text);
    const TensorMeta meta = parse_option("tensor", [&] { return TensorMeta::parse(tensor); });
    const auto layout = [&](const char* name, const std::string& text) {
      return parse_option(name, [&] { return parse_layout(text, mesh.ndim(), meta); });
    };
    return evaluator_->on(mesh).cost_us(meta, layout("src", from), layout("dst", to));
  }

  // The price of one collective over a mesh dim, in microseconds: total, latency, transfer,
  // compute, straggler.
  std::vector<double> collective(const std::string& name, double full_bytes,
                                 const std::string& mesh_text, int mesh_dim) {
    const DeviceMesh& mesh = mesh_of(mesh_text);
    const std::optional<Collective> collective = collective_from_name(name);
    if (!collective) {
      throw InputError("collective: found \"" + name +
                       "\"; valid: all_gather, all_reduce, reduce_scatter, all_to_all, broadcast, "
                       "scatter, send_recv, local");
    }
    if (mesh_dim < 0 || mesh_dim >= mesh.ndim()) {
      throw InputError("mesh_dim: found " + std::to_string(mesh_dim) + "; valid: 0 to " +
                       std::to_string(mesh.ndim() - 1));
    }
    if (!(full_bytes >= 0.0)) {
      throw InputError("full_bytes: found " + std::to_string(full_bytes) + "; valid: 0 and above");
    }
    const Price price = evaluator_->collective_model().price(
        {*collective, full_bytes, mesh.span(mesh_dim, evaluator_->topology())});
    return {price.total.value(), price.latency.value(), price.transfer.value(),
            price.compute.value(), price.straggler.value()};
  }

 private:
  const DeviceMesh& mesh_of(const std::string& text) {
    const auto found = meshes_.find(text);
    if (found != meshes_.end()) return found->second;
    return meshes_.emplace(text, parse_option("mesh", [&] { return DeviceMesh::parse(text); }))
        .first->second;
  }

  Session session_;
  LiveStacks live_{session_};
  std::unique_ptr<StackEvaluator> evaluator_;
  std::map<std::string, DeviceMesh> meshes_;
};

}  // namespace

PYBIND11_MODULE(_shardlab, module) {
  module.doc() = "shardlab's commands and prices; import shardlab instead.";
  module.attr("version") = std::string(version());
  // Bad input is a ValueError, what the environment lacks a RuntimeError; a bug stays what it is.
  py::register_exception<InputError>(module, "InputError", PyExc_ValueError);
  py::register_exception<LimitError>(module, "LimitError", module.attr("InputError").ptr());
  py::register_exception<TextError>(module, "TextError", module.attr("InputError").ptr());
  py::register_exception<ConfigError>(module, "ConfigError", module.attr("InputError").ptr());
  py::register_exception<EnvironmentError>(module, "EnvironmentError", PyExc_RuntimeError);
  module.def("run", &run, py::arg("words"));
  module.def(
      "add_cost_stack",
      [](const std::string& name, const std::string& base, int parameters, py::function answer) {
        CostStacks::all().add(name, base, parameters, std::move(answer));
      },
      py::arg("name"), py::arg("base"), py::arg("parameters"), py::arg("answer"));
  module.def(
      "remove_cost_stack", [](const std::string& name) { CostStacks::all().remove(name); },
      py::arg("name"));
  py::class_<Pricer>(module, "Pricer")
      .def(py::init<const std::string&, const std::string&, const std::vector<std::string>&>(),
           py::arg("stack"), py::arg("topology"), py::arg("sets"))
      .def_property_readonly("stack", &Pricer::stack)
      .def("price", &Pricer::price, py::arg("mesh"), py::arg("tensor"), py::arg("src"),
           py::arg("dst"))
      .def("collective", &Pricer::collective, py::arg("collective"), py::arg("full_bytes"),
           py::arg("mesh"), py::arg("mesh_dim"));
}

}  // namespace shardlab
