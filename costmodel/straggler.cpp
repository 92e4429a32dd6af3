#include "costmodel/straggler.h"

#include <utility>

namespace shardlab {
namespace {

class PercentStraggler final : public CostModel {
 public:
  PercentStraggler(std::unique_ptr<CostModel> model, double factor)
      : model_(std::move(model)), factor_(factor) {}

  [[nodiscard]] Price price(const CollectiveQuery& query) const override {
    Price price = model_->price(query);
    if (!price.is_possible()) return price;
    price.straggler = factor_ * price.total;
    price.total += price.straggler;
    return price;
  }

 private:
  std::unique_ptr<CostModel> model_;
  double factor_;
};

}  // namespace

Straggler Straggler::from_json(const nlohmann::json& json, const JsonPlace& place) {
  Straggler straggler;
  JsonPlace name_place = place;
  if (json.is_string()) {
    straggler.name = json.get<std::string>();
  } else {
    ObjectReader reader(json, place);
    straggler.name = reader.text("name");
    name_place = reader.place("name");
    if (straggler.name == "percent") {
      straggler.percent = reader.number("percent", {.min = 0.0, .max = 1e6});
    }
    reader.finish();
  }
  if (straggler.name != "none" && straggler.name != "percent") {
    name_place.fail("unknown straggler model \"" + straggler.name + "\"; valid: none, percent");
  }
  if (json.is_string() && straggler.name == "percent") {
    place.fail(R"(valid: {"name": "percent", "percent": NUMBER})");
  }
  return straggler;
}

nlohmann::json Straggler::to_json() const {
  nlohmann::json json = {{"name", name}};
  if (name == "percent") json["percent"] = percent;
  return json;
}

std::unique_ptr<CostModel> Straggler::decorate(std::unique_ptr<CostModel> model) const {
  if (name == "none") return model;
  return std::make_unique<PercentStraggler>(std::move(model), percent / 100.0);
}

}  // namespace shardlab
