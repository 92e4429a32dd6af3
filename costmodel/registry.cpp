#include "costmodel/registry.h"

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"
#include "costmodel/fitted_gpus.h"
#include "costmodel/gpu_model.h"

namespace shardlab {
namespace {

ModelInput input_of(const Params& params, const ModelChoice& choice, const Topology& topology) {
  return {params, topology, choice.rows, choice.place.at("rows")};
}

// Asks the user's function for the price of every collective.
class FunctionModel final : public CostModel {
 public:
  explicit FunctionModel(std::shared_ptr<const CollectiveFunction> function)
      : function_(std::move(function)) {}

  [[nodiscard]] Price price(const CollectiveQuery& query) const override {
    if (query.kind == Collective::kLocal) return {};
    return Price::of(function_->price(query), Micros());
  }

 private:
  std::shared_ptr<const CollectiveFunction> function_;
};

std::vector<std::string> read_gpus(const nlohmann::json& json, const JsonPlace& place) {
  std::vector<std::string> gpus;
  for (const nlohmann::json& each : json_array(json, place)) {
    const JsonPlace each_place = place.at(gpus.size());
    gpus.push_back(json_text(each, each_place));
    if (plain_gpu(gpus.back()).empty()) {
      each_place.fail("found \"" + gpus.back() + "\"; valid: the name of a GPU, such as \"h100\"");
    }
  }
  return gpus;
}

}  // namespace

std::vector<std::string_view> model_names(bool collective) {
  std::vector<std::string_view> names;
  for (const ModelEntry* entry : all_cost_models()) {
    if (collective ? entry->make_collective != nullptr : entry->make_compute != nullptr) {
      names.push_back(entry->name);
    }
  }
  return names;
}

const ModelEntry* find_cost_model(std::string_view name) {
  for (const ModelEntry* entry : all_cost_models()) {
    if (entry->name == name) return entry;
  }
  return nullptr;
}

const ModelEntry& function_entry() {
  static constexpr ModelEntry kEntry{
      .name = "function",
      .summary = "a function of the user's prices each collective",
      .formula = "whatever the function returns, in microseconds",
      .source = "the user's file",
      .valid_range = "whatever the function was written for",
  };
  return kEntry;
}

ModelChoice choose_function(std::shared_ptr<const CollectiveFunction> function) {
  const JsonPlace place{function->text(), ""};
  return {.entry = &function_entry(), .place = place, .function = std::move(function)};
}

nlohmann::json ModelChoice::to_json() const {
  if (function) return {{"name", entry->name}, {"function", function->text()}};
  nlohmann::json json = {{"name", entry->name},
                         {"params", Params(entry->params, params, place.at("params")).to_json()}};
  if (entry->reads_rows) json["rows"] = rows;
  if (!fitted_gpus.empty()) json["fitted_gpus"] = fitted_gpus;
  return json;
}

ModelChoice read_model_choice(const nlohmann::json& json, const JsonPlace& place) {
  ModelChoice choice{.entry = nullptr, .place = place};
  std::string name;
  JsonPlace name_place = place;
  if (json.is_string()) {
    name = json.get<std::string>();
  } else {
    ObjectReader reader(json, place);
    name = reader.text("name");
    name_place = reader.place("name");
    if (const nlohmann::json* params = reader.find("params")) choice.params = *params;
    if (const nlohmann::json* rows = reader.find("rows")) {
      choice.rows = json_array(*rows, reader.place("rows"));
    }
    if (const nlohmann::json* gpus = reader.find("fitted_gpus")) {
      choice.fitted_gpus = read_gpus(*gpus, reader.place("fitted_gpus"));
    }
    reader.finish();
  }
  choice.entry = find_cost_model(name);
  if (choice.entry == nullptr) {
    std::vector<std::string_view> valid;
    for (const ModelEntry* entry : all_cost_models()) valid.push_back(entry->name);
    name_place.fail("unknown model \"" + name + "\"" + did_you_mean(name, valid) +
                    "; valid: " + join(valid));
  }
  if (!choice.rows.empty() && !choice.entry->reads_rows) {
    place.at("rows").fail("model \"" + name + "\" reads no rows");
  }
  // Names and ranges are checked here, where the error can name the file.
  static_cast<void>(Params(choice.entry->params, choice.params, place.at("params")));
  return choice;
}

std::vector<std::string_view> fitted_model_names() {
  std::vector<std::string_view> names;
  for (const ModelEntry* entry : all_cost_models()) {
    if (entry->fits_curves || entry->fits_population || entry->fits_kernels ||
        !entry->fitted.empty())
      names.push_back(entry->name);
  }
  return names;
}

std::unique_ptr<CostModel> make_collective_model(const ModelChoice& choice,
                                                 const Topology& topology) {
  if (choice.function) return std::make_unique<FunctionModel>(choice.function);
  if (choice.entry->make_collective == nullptr) {
    choice.place.fail("\"" + std::string(choice.entry->name) +
                      "\" prices no collectives; valid: " + join(model_names(true)));
  }
  const Params params(choice.entry->params, choice.params, choice.place.at("params"));
  auto model = choice.entry->make_collective(input_of(params, choice, topology));
  if (is_fitted_to(choice.fitted_gpus, topology)) return model;
  return carried_over(std::move(model), choice.fitted_gpus);
}

std::unique_ptr<ComputeModel> make_compute_model(const ModelChoice& choice,
                                                 const Topology& topology) {
  if (choice.entry->make_compute == nullptr) {
    choice.place.fail("\"" + std::string(choice.entry->name) +
                      "\" prices no kernels; valid: " + join(model_names(false)));
  }
  const Params params(choice.entry->params, choice.params, choice.place.at("params"));
  return choice.entry->make_compute(input_of(params, choice, topology));
}

}  // namespace shardlab
