#include "sim/slowdown.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "sim/counter_hash.h"

namespace shardlab {
namespace {

constexpr std::int64_t kMostHosts = std::int64_t{1} << 40U;

struct Form {
  std::string_view name;
  Slowdown::Kind kind;
  bool names_host;
  std::string_view amount;  // what the number must be, for messages; empty when there is no number
  double min;
  double max;
};
constexpr std::array<Form, 5> kForms = {{
    {"none", Slowdown::Kind::kNone, false, "", 0.0, 0.0},
    {"percent", Slowdown::Kind::kPercent, false, "a percentage from 0 to 1e6", 0.0, 1e6},
    {"host", Slowdown::Kind::kHost, true, "a factor from 1 to 1e6", 1.0, 1e6},
    {"link", Slowdown::Kind::kLink, true, "a factor from 1 to 1e6", 1.0, 1e6},
    {"jitter", Slowdown::Kind::kJitter, false, "a standard deviation from 0 to 5", 0.0, 5.0},
}};

const Form& form_of(Slowdown::Kind kind) { return kForms[to_index(kind)]; }

}  // namespace

Slowdown Slowdown::parse(std::string_view text) {
  TextCursor cursor("straggler model", text);
  const std::string_view name = cursor.word();
  const auto* form =
      std::find_if(kForms.begin(), kForms.end(), [&](const Form& f) { return f.name == name; });
  if (form == kForms.end()) cursor.fail_at(0, kSlowdownForms);
  Slowdown slowdown;
  slowdown.kind_ = form->kind;
  if (form->names_host) {
    cursor.expect(":", ":HOST:FACTOR");
    slowdown.host_ = cursor.integer("the number of a host", 0, kMostHosts);
  }
  if (!form->amount.empty()) {
    cursor.expect(":", form->names_host ? ":FACTOR" : ":NUMBER");
    const std::size_t begin = cursor.position();
    slowdown.amount_ = cursor.number(form->amount);
    if (!(slowdown.amount_ >= form->min && slowdown.amount_ <= form->max)) {
      cursor.fail_at(begin, form->amount);
    }
  }
  if (!cursor.at_end()) cursor.fail("the end");
  return slowdown;
}

std::string Slowdown::text() const {
  const Form& form = form_of(kind_);
  std::string out(form.name);
  if (form.names_host) out += ":" + std::to_string(host_);
  if (!form.amount.empty()) out += ":" + format_double(amount_);
  return out;
}

Micros Slowdown::time(Micros price, Micros transfer, const Draw& draw) const {
  switch (kind_) {
    case Kind::kNone:
      break;
    case Kind::kPercent:
      return (1.0 + amount_ / 100.0) * price;
    case Kind::kHost:
      return draw.host == host_ ? amount_ * price : price;
    case Kind::kLink:
      return draw.leaves_domain && draw.host == host_ ? price + (amount_ - 1.0) * transfer : price;
    case Kind::kJitter:
      return std::exp(amount_ * counter_normal(draw.seed, static_cast<std::uint64_t>(draw.rank),
                                               static_cast<std::uint64_t>(draw.kernel))) *
             price;
  }
  return price;
}

}  // namespace shardlab
