// The Python module _shardlab: the commands, and prices without a command around them. The package
// shardlab/ around it turns Python's values into words and documents into dicts.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/base/error.h"
#include "costmodel/straggler.h"
#include "runner/base/version.h"
#include "runner/command_line.h"
#include "runner/config/configs.h"
#include "strategies/select/evaluator.h"

namespace py = pybind11;

namespace shardlab {
namespace {

// Exit code and what the command printed to stdout.
std::pair<int, std::string> run(const std::vector<std::string>& words) {
  if (!words.empty() && words.front() == "measure") {
    throw EnvironmentError(
        "measure starts processes of its own, which it can't do here; valid: `shardlab measure` in "
        "a shell");
  }
  const py::gil_scoped_release others_may_run;
  Session session;
  std::ostringstream out;
  session.results = &out;
  const int exit_code = run_command_line(words, session);
  return {exit_code, out.str()};
}

// Prices under one stack. Keeps meshes and planners, so that asking again is cheap.
class Pricer {
 public:
  Pricer(const std::string& stack, const std::string& topology,
         const std::vector<std::string>& sets) {
    Session session;
    session.sets = sets;
    const ConfigStore store = session.store();
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
