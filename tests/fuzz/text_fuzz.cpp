// A text of any form is refused with the error of that form, or its value prints a text that reads
// back as the same value.
//
// Byte 0 is the form (kForms below), and byte 1 the number of mesh dims if the form needs it; then
// comes the text.
#include <array>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"
#include "runner/config/configs.h"
#include "sim/placement_text.h"
#include "sim/slowdown.h"
#include "strategies/rules/op_call.h"
#include "strategies/select/selection.h"
#include "tests/fuzz/fuzz.h"

namespace shardlab::testing_support {
namespace {

// Parses, prints, parses and prints again: the values are equal, and so are the texts.
template <class Parse, class Print>
void round_trip(std::string_view text, const Parse& parse, const Print& print) {
  const auto value = parse(text);
  const std::string printed = print(value);
  try {
    const auto again = parse(printed);
    FUZZ_CHECK(again == value, "value of " + printed);
    FUZZ_CHECK(print(again) == printed, printed + " and " + print(again));
  } catch (const TextError& error) {
    FUZZ_CHECK(false, "its own text is refused: " + std::string(error.what()));
  }
}

template <class Value>
std::string text_of(const Value& value) {
  return value.text();
}

void placement(std::string_view text, int /*mesh_ndim*/) {
  round_trip(text, Placement::parse, text_of<Placement>);
  round_trip(text, Placement::parse, [](const Placement& p) { return torch_text(p); });
}

void layout(std::string_view text, int mesh_ndim) {
  const auto parse = [&](std::string_view t) { return Layout::parse(t, mesh_ndim); };
  round_trip(text, parse, text_of<Layout>);
  round_trip(text, parse, [](const Layout& l) { return l.text(true); });
  round_trip(text, parse, [](const Layout& l) { return torch_text(l); });
  round_trip(text, parse, [](const Layout& l) { return torch_text(l, true); });
}

// Dims may count from the last one of a tensor of three dims.
void layout_of_tensor(std::string_view text, int mesh_ndim) {
  const auto parse = [&](std::string_view t) { return parse_layout_of(t, mesh_ndim, 3); };
  round_trip(text, parse, text_of<Layout>);
}

void mesh(std::string_view text, int /*mesh_ndim*/) {
  round_trip(text, DeviceMesh::parse, text_of<DeviceMesh>);
}

void flattened(std::string_view text, int mesh_ndim) {
  DeviceMesh all =
      mesh_ndim < 3 ? DeviceMesh::parse("dp=2,tp=4") : DeviceMesh::parse("a=2,b=3,c=1,d=4");
  std::vector<std::string> names;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    names.emplace_back(text.substr(start, comma - start));
    start = comma + 1;
  }
  const DeviceMesh with = all.flatten(names);
  FUZZ_CHECK(with == all, "flattening changes no dim");
  const DeviceMesh sub = with.flattened(join(names, "_"));
  FUZZ_CHECK(with.size() % sub.size() == 0, std::string(text));
}

void tensor(std::string_view text, int /*mesh_ndim*/) {
  round_trip(text, TensorMeta::parse, text_of<TensorMeta>);
}

void tensor_and_layout(std::string_view text, int mesh_ndim) {
  round_trip(
      text, [&](std::string_view t) { return TensorSpec::parse(t, mesh_ndim); },
      text_of<TensorSpec>);
}

void size(std::string_view text, int /*mesh_ndim*/) {
  round_trip(text, parse_bytes, format_double);
}

void op_input(std::string_view text, int mesh_ndim) {
  round_trip(
      text, [&](std::string_view t) { return OpCall::parse_input(t, mesh_ndim); },
      text_of<TensorArg>);
}

void order(std::string_view text, int /*mesh_ndim*/) {
  const CandidateOrder value = CandidateOrder::parse(text);
  const CandidateOrder again = CandidateOrder::parse(value.text());
  FUZZ_CHECK(again.kind == value.kind && again.seed == value.seed, value.text());
  FUZZ_CHECK(value.permutation(5).size() == 5, value.text());
}

void override_of(std::string_view text, int /*mesh_ndim*/) {
  const Override value = Override::parse(text);
  FUZZ_CHECK(!value.keys.empty() && value.text == text, value.text);
  std::string path = value.target;
  for (const std::string& key : value.keys) path += "." + key;
  // A text that is not UTF-8 has no form in JSON.
  std::string json = value.value.dump(-1, ' ', false, nlohmann::json::error_handler_t::ignore);
  if (!nlohmann::json::accept(json) || nlohmann::json::parse(json) != value.value) return;
  const Override again = Override::parse(path + "=" + json);
  FUZZ_CHECK(again.target == value.target && again.keys == value.keys, path);
  FUZZ_CHECK(again.value == value.value, json);
}

void straggler(std::string_view text, int /*mesh_ndim*/) {
  round_trip(text, Slowdown::parse, text_of<Slowdown>);
}

constexpr std::array<void (*)(std::string_view, int), 12> kForms = {
    placement, layout, mesh,        tensor,    tensor_and_layout, size,
    op_input,  order,  override_of, flattened, straggler,         layout_of_tensor};

}  // namespace
}  // namespace shardlab::testing_support

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shardlab;
  using namespace shardlab::testing_support;
  Bytes8 input(data, size);
  const auto form = static_cast<std::size_t>(input.below(static_cast<int>(kForms.size())));
  const int mesh_ndim = input.below(kMaxMeshDims + 1);
  try {
    kForms[form](input.rest(), mesh_ndim);
  } catch (const TextError&) {
  }
  return 0;
}
