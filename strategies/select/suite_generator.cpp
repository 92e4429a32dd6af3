// Generated suites. Every op meets every mesh and size. Layouts are drawn for each question from a
// seeded generator, with arithmetic of our own, so that all platforms draw the same.
#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"
#include "strategies/rules/expansion.h"
#include "strategies/rules/op_rule.h"
#include "strategies/select/suite.h"

namespace shardlab {
namespace {

constexpr double kMaxQuestions = 1e6;

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : rng_(seed) {}
  std::uint64_t below(std::uint64_t n) { return rng_() % n; }

  // On each mesh dim R is drawn 7 times in 20, S 8 times and P 5 times. All partials of one layout
  // are of one kind.
  Layout layout(int mesh_ndim, int tensor_ndim, bool partials) {
    constexpr std::array<ReduceOp, 6> kOps = {ReduceOp::kSum, ReduceOp::kSum, ReduceOp::kSum,
                                              ReduceOp::kAvg, ReduceOp::kMax, ReduceOp::kMin};
    const Placement partial = Placement::partial(kOps[below(kOps.size())]);
    Placements placements;
    for (int i = 0; i < mesh_ndim; ++i) {
      const std::uint64_t pick = below(20);
      if (pick < 7 || (pick < 15 && tensor_ndim == 0) || (pick >= 15 && !partials)) {
        placements.push_back(Placement::replicate());
      } else if (pick < 15) {
        placements.push_back(
            Placement::shard(static_cast<int>(below(static_cast<std::uint64_t>(tensor_ndim)))));
      } else {
        placements.push_back(partial);
      }
    }
    return Layout(placements);
  }

 private:
  std::mt19937_64 rng_;
};

// A shape of about `elements` elements and the given number of dims: the last dims take equal
// shares, the first takes the rest. One in three shapes is made odd, so that shards come out
// uneven.
Shape shape_of(double elements, int ndim, Draw& draw) {
  Shape shape;
  double left = elements;
  for (int i = ndim; i-- > 0;) {
    double extent = i == 0 ? left : std::floor(std::pow(left, 1.0 / (i + 1)) + 0.5);
    extent = std::max(1.0, std::floor(extent));
    shape.insert(shape.begin(), static_cast<std::int64_t>(extent));
    left = std::max(1.0, std::floor(left / extent));
  }
  if (draw.below(3) == 0) {
    std::int64_t& extent = shape[draw.below(shape.size())];
    if (extent > 2) extent -= extent % 2 == 0 ? 1 : 0;
  }
  return shape;
}

// Whether PyTorch computes the op for tensors of integers.
bool takes_integers(std::string_view op) {
  constexpr std::array<std::string_view, 3> kFloatsAlone = {"aten.mean.", "aten.gelu.", "_softmax"};
  return std::none_of(kFloatsAlone.begin(), kFloatsAlone.end(), [&](std::string_view part) {
    return op.find(part) != std::string_view::npos;
  });
}

class Generator {
 public:
  Generator(std::string op, DeviceMesh mesh, double bytes, Draw& draw)
      : op_(std::move(op)), mesh_(std::move(mesh)), draw_(draw) {
    // One in three tensors of four bytes or more is f32, and the others are bf16. A smaller tensor
    // is i8, since f32 would not fit, or bf16 for ops that are not defined for integers.
    if (bytes >= 4) {
      dtype_ = draw.below(3) == 0 ? DType::kF32 : DType::kBF16;
    } else {
      dtype_ = takes_integers(op_) ? DType::kI8 : DType::kBF16;
    }
    elements_ = std::max(1.0, bytes / itemsize(dtype_));
  }

  OpCall call() {
    OpCall call{.op = op_, .inputs = {}, .args = nlohmann::json::array()};
    const bool product = op_ == "aten.mm.default" || op_ == "aten.addmm.default";
    const bool batched = op_ == "aten.bmm.default" || op_ == "aten.baddbmm.default";
    if (product || batched) {
      // The left operand has `elements_` elements; the right one is as large, four times smaller or
      // four times larger.
      const double batch = batched ? std::min(8.0, elements_) : 0.0;
      const double each = batched ? elements_ / batch : elements_;
      const std::int64_t m = side(each);
      const std::int64_t k = std::max<std::int64_t>(1, static_cast<std::int64_t>(each) / m);
      const std::array<double, 3> ratios = {0.25, 1.0, 4.0};
      const std::int64_t n = std::max<std::int64_t>(
          1, static_cast<std::int64_t>(static_cast<double>(m) * ratios[draw_.below(3)]));
      const auto b = static_cast<std::int64_t>(batch);
      if (op_ == "aten.addmm.default") add(call, {n});
      if (op_ == "aten.baddbmm.default") add(call, {b, m, n});
      add(call, batched ? Shape{b, m, k} : Shape{m, k});
      add(call, batched ? Shape{b, k, n} : Shape{k, n});
    } else if (op_ == "aten.dot.default") {
      const Shape shape = {static_cast<std::int64_t>(elements_)};
      add(call, shape);
      add(call, shape);
    } else if (op_ == "aten.mv.default") {
      const Shape shape = shape_of(elements_, 2, draw_);
      add(call, shape);
      add(call, {shape[1]});
    } else if (op_ == "aten.cat.default" || op_ == "aten.stack.default") {
      const Shape shape = shape_of(elements_, 2, draw_);
      add(call, shape);
      add(call, shape);
      call.inputs = {
          {.tensors = {call.inputs[0].tensors[0], call.inputs[1].tensors[0]}, .is_list = true}};
      call.args = {0};
    } else if (op_.find("_softmax") != std::string::npos) {
      add(call, shape_of(elements_, 2 + static_cast<int>(draw_.below(2)), draw_));
      call.args = {-1, false};
    } else if (op_ == "aten.sum.dim_IntList" || op_ == "aten.mean.dim" ||
               op_ == "aten.amax.default") {
      add(call, shape_of(elements_, 2 + static_cast<int>(draw_.below(2)), draw_));
      call.args = {nlohmann::json::array({static_cast<int>(draw_.below(2))}), false};
    } else {
      pointwise_or_whole(call);
    }
    return call;
  }

  Question redistribution() {
    Question question;
    question.kind = Question::Kind::kPlan;
    question.mesh = mesh_;
    const int ndim = 1 + static_cast<int>(draw_.below(3));
    question.tensor = {.dtype = dtype_, .shape = shape_of(elements_, ndim, draw_), .strides = {}};
    question.from = draw_.layout(mesh_.ndim(), ndim, true);
    // The target has no partials, since they could only come from partials of the source.
    question.to = draw_.layout(mesh_.ndim(), ndim, false);
    return question;
  }

 private:
  static std::int64_t side(double elements) {
    return std::max<std::int64_t>(1, std::llround(std::sqrt(elements)));
  }

  void add(OpCall& call, const Shape& shape) {
    const TensorMeta meta{.dtype = dtype_, .shape = shape, .strides = {}};
    call.inputs.push_back(
        {.tensors = {{meta, draw_.layout(mesh_.ndim(), static_cast<int>(shape.size()), true)}}});
  }

  void pointwise_or_whole(OpCall& call) {
    const int ndim = 2 + static_cast<int>(draw_.below(2));
    const Shape shape = shape_of(elements_, ndim, draw_);
    add(call, shape);
    if (op_ == "aten.where.self") make_predicate(call.inputs.front().tensors.front());
    const std::size_t operands = operand_count();
    for (std::size_t i = 1; i < operands; ++i) {
      // One in four operands is broadcast along all dims except the last.
      add(call, draw_.below(4) == 0 ? Shape{shape.back()} : shape);
    }
    if (op_.find("Scalar") != std::string::npos) call.args = {2.0};
    if (is_foreach(op_)) {
      for (TensorArg& arg : call.inputs) arg.is_list = true;
    }
  }

  // The predicate of a choice between two tensors holds truth values, whose sums and averages are
  // none.
  static void make_predicate(TensorSpec& spec) {
    spec.meta.dtype = DType::kB8;
    Placements placements = spec.layout.placements;
    for (Placement& placement : placements) {
      if (placement.is_partial()) placement = Placement::replicate();
    }
    spec.layout = Layout(placements);
  }

  [[nodiscard]] std::size_t operand_count() const {
    if (op_ == "aten.where.self") return 3;
    for (const std::string_view binary :
         {"add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor", "maximum", "minimum", "logaddexp",
          "add.List", "mul.List"}) {
      if (op_.find(binary) != std::string::npos) return 2;
    }
    return 1;
  }

  std::string op_;
  DeviceMesh mesh_;
  Draw& draw_;
  DType dtype_ = DType::kBF16;
  double elements_ = 1.0;
};

std::string numbered(std::size_t number) {
  std::string digits = std::to_string(number);
  return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
}

}  // namespace

std::vector<Question> generate_questions(const nlohmann::json& json, const JsonPlace& place) {
  ObjectReader reader(json, place);
  Draw draw(static_cast<std::uint64_t>(reader.integer("seed", 0, std::int64_t{1} << 53)));
  const nlohmann::json& ops = reader.array("ops");
  const nlohmann::json& mesh_texts = reader.array("meshes");
  const nlohmann::json& sizes = reader.array("sizes_bytes");
  const std::int64_t per_case = reader.integer("layouts_per_case", 0, 1000);
  const std::int64_t redistributions = reader.integer("redistributions_per_case", 0, 1000);
  reader.finish();

  std::vector<std::string> names;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const JsonPlace op_place = reader.place("ops").at(i);
    const std::string name = json_text(ops[i], op_place);
    try {
      names.emplace_back(find_op_rule(name, kNewestRelease).op);
    } catch (const InputError& error) {
      op_place.fail(error.what());
    }
  }
  std::vector<DeviceMesh> meshes;
  for (std::size_t i = 0; i < mesh_texts.size(); ++i) {
    const JsonPlace mesh_place = reader.place("meshes").at(i);
    const std::string text = json_text(mesh_texts[i], mesh_place);
    try {
      meshes.push_back(DeviceMesh::parse(text));
    } catch (const TextError& error) {
      mesh_place.fail(error.what());
    }
  }
  const double asked = static_cast<double>(sizes.size()) * static_cast<double>(meshes.size()) *
                       (static_cast<double>(redistributions) +
                        static_cast<double>(names.size()) * static_cast<double>(per_case));
  if (asked > kMaxQuestions) {
    place.fail("found " + format_double(asked) + " questions; valid: at most " +
               format_fixed(kMaxQuestions, 0));
  }
  std::vector<Question> questions;
  const auto push = [&](Question question) {
    question.id = numbered(questions.size() + 1) + " " + question.op();
    questions.push_back(std::move(question));
  };
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    const double bytes =
        json_number(sizes[s], reader.place("sizes_bytes").at(s), {.min = 1.0, .max = 1e13});
    for (const DeviceMesh& mesh : meshes) {
      for (std::int64_t i = 0; i < redistributions; ++i) {
        push(Generator("redistribute", mesh, bytes, draw).redistribution());
      }
      for (const std::string& name : names) {
        for (std::int64_t i = 0; i < per_case; ++i) {
          Question question;
          question.mesh = mesh;
          question.call = Generator(name, mesh, bytes, draw).call();
          push(std::move(question));
        }
      }
    }
  }
  return questions;
}

}  // namespace shardlab
