#include "reports/records/ties_record.h"

#include <utility>

namespace shardlab::reports {
namespace {

using nlohmann::json;

TiesItem read_item(const json& value, std::string_view file, std::string pointer) {
  StrictObject object(value, file, std::move(pointer));
  TiesItem item;
  item.question = object.text("question");
  item.op = object.text("op");
  item.mesh = object.text("mesh");
  item.bytes = object.number("bytes");
  item.inputs = object.texts("inputs");
  item.choice = object.text("choice");
  item.total_us = object.number_or_null("total_us");
  item.candidates = object.integer("candidates", 0);
  item.exact_ties = object.integer("exact_ties", 0);
  item.near_ties = object.integer("near_ties", 0);
  item.margin_us = object.number_or_null("margin_us");
  item.order_dependent = object.flag("order_dependent");
  if (!object.value("flip").is_null()) {
    StrictObject flip(object.object("flip"), file, object.pointer_to("flip"));
    DetailFlip first;
    first.parameter = flip.text("parameter");
    first.factor = flip.number("factor");
    first.to = flip.text("to");
    flip.finish();
    item.flip = std::move(first);
  }
  item.tied = object.texts("tied");
  object.finish();
  return item;
}

}  // namespace

TiesRecord read_ties_record(ResultRecord record, std::string_view file) {
  TiesRecord ties;
  static_cast<ResultRecord&>(ties) = std::move(record);
  StrictObject object(ties.result, file, "/result");
  ties.stack = object.text("stack");
  ties.within_percent = object.number("within_percent");
  ties.questions = object.integer("questions", 0);
  ties.exact_ties = object.integer("exact_ties", 0);
  ties.near_ties = object.integer("near_ties", 0);
  ties.order_dependent = object.integer("order_dependent", 0);
  ties.impossible = object.integer("impossible", 0);
  ties.not_asked = object.integer("not_asked", 0);
  StrictObject flips(object.object("flipped_first_by"), file, "/result/flipped_first_by");
  for (const auto& flip : ties.result["flipped_first_by"].items()) {
    ties.flipped_first_by[flip.key()] = flips.integer(flip.key(), 0);
  }
  const json& items = object.array("items");
  for (std::size_t i = 0; i < items.size(); ++i) {
    ties.items.push_back(read_item(items[i], file, "/result/items/" + std::to_string(i)));
  }
  object.finish();
  return ties;
}

}  // namespace shardlab::reports
