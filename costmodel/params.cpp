#include "costmodel/params.h"

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"

namespace shardlab {

Params::Params(std::span<const ParamSpec> specs, const nlohmann::json& values,
               const JsonPlace& place)
    : specs_(specs) {
  if (!values.is_object()) place.fail("found " + describe_json(values) + "; valid: an object");
  std::vector<std::string_view> valid;
  for (const ParamSpec& spec : specs) {
    valid.push_back(spec.name);
    const auto it = values.find(std::string(spec.name));
    if (it == values.end()) {
      values_.push_back(spec.default_value);
    } else {
      const double value =
          json_number(*it, place.at(spec.name), {.min = spec.min, .max = spec.max});
      if (spec.is_switch && value != 0.0 && value != 1.0) {
        place.at(spec.name).fail("found " + it->dump() + "; valid: 0 or 1");
      }
      values_.emplace_back(value);
    }
  }
  for (const auto& [key, unused] : values.items()) {
    bool known = false;
    for (const std::string_view name : valid) known = known || name == key;
    if (!known) {
      place.at(key).fail("unknown parameter" + did_you_mean(key, valid) +
                         "; valid: " + (valid.empty() ? std::string("none") : join(valid)));
    }
  }
}

std::optional<double> Params::get(std::string_view name) const {
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    if (specs_[i].name == name) return values_[i];
  }
  SHARDLAB_CHECK(false, "no parameter ", name);
}

double Params::operator[](std::string_view name) const {
  const std::optional<double> value = get(name);
  SHARDLAB_CHECK(value.has_value(), "parameter ", name, " has no default");
  return *value;
}

nlohmann::json Params::to_json() const {
  nlohmann::json json = nlohmann::json::object();
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    if (values_[i]) json[std::string(specs_[i].name)] = *values_[i];
  }
  return json;
}

}  // namespace shardlab
