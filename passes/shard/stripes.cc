#include "passes/shard/stripes.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/ops/attention.h"
#include "ir/printer.h"
#include "ir/support/status.h"
#include "passes/shard/stripe_flow.h"

namespace asyra {
namespace {

// Adds the ops that rename places of one value, whose stripes are `devices`
// pairs. What it adds is called `name`.
class Renamer {
 public:
  Renamer(Builder& builder, int64_t devices, std::string name)
      : builder_(builder), devices_(devices), name_(std::move(name)) {}

  // `op` is stripe or unstripe.
  absl::StatusOr<ValueId> Rename(std::string_view op, ValueId value,
                                 const SequencePlace& place) {
    Shape shape = builder_.type(value).shape();
    int64_t outer = shape[place.dim] / place.size / place.inner;
    bool alone = outer == 1 && place.inner == 1;
    Shape apart = shape;
    if (!alone) {
      apart = Split(shape, place.dim, {outer, place.size, place.inner});
    }
    ASYRA_ASSIGN_OR_RETURN(value, Reshape(value, apart));
    ASYRA_ASSIGN_OR_RETURN(value,
                           One(op, {value},
                               {{"dim", int64_t{place.dim} + (alone ? 0 : 1)},
                                {"pairs", devices_}}));
    return Reshape(value, shape);
  }

  // Takes the first stripe of each device along `dim`, or the second.
  absl::StatusOr<ValueId> Half(ValueId striped, int dim, int64_t which) {
    Shape shape = builder_.type(striped).shape();
    Shape pairs = Split(shape, dim, {devices_, 2, shape[dim] / 2 / devices_});
    ASYRA_ASSIGN_OR_RETURN(ValueId apart, Reshape(striped, pairs));
    ASYRA_ASSIGN_OR_RETURN(ValueId half, Cut(apart, dim + 1, which, which + 1));
    shape[dim] /= 2;
    return Reshape(half, shape);
  }
  // Undoes Half: both halves have their stripes in the order of devices. The
  // result is called `name`.
  absl::StatusOr<ValueId> Join(ValueId first, ValueId second, int dim,
                               std::string_view name) {
    Shape shape = builder_.type(first).shape();
    Shape runs = Split(shape, dim, {devices_, 1, shape[dim] / devices_});
    ASYRA_ASSIGN_OR_RETURN(ValueId a, Reshape(first, runs));
    ASYRA_ASSIGN_OR_RETURN(ValueId b, Reshape(second, runs));
    ASYRA_ASSIGN_OR_RETURN(ValueId joined,
                           One("concat", {a, b}, {{"dim", int64_t{dim} + 1}}));
    shape[dim] *= 2;
    return builder_.AddOne("reshape", {joined},
                           {{"shape", Ints(shape.begin(), shape.end())}}, name);
  }

 private:
  static Shape Split(Shape shape, int dim, std::vector<int64_t> parts) {
    shape.erase(shape.begin() + dim);
    shape.insert(shape.begin() + dim, parts.begin(), parts.end());
    return shape;
  }

  absl::StatusOr<ValueId> Cut(ValueId value, int dim, int64_t start,
                              int64_t stop) {
    return One("slice", {value},
               {{"dim", int64_t{dim}}, {"start", start}, {"stop", stop}});
  }
  absl::StatusOr<ValueId> Reshape(ValueId value, const Shape& shape) {
    if (builder_.type(value).shape() == shape) return value;
    return One("reshape", {value},
               {{"shape", Ints(shape.begin(), shape.end())}});
  }
  absl::StatusOr<ValueId> One(std::string_view op,
                              const std::vector<ValueId>& operands,
                              AttrMap attrs) {
    return builder_.AddOne(op, operands, std::move(attrs), name_);
  }

  Builder& builder_;
  const int64_t devices_;
  const std::string name_;
};

// Rebuilds a program in which places of `flow` are striped.
class Striper {
 public:
  Striper(const Program& from, const StripeFlow& flow, int64_t devices)
      : from_(from),
        flow_(flow),
        devices_(devices),
        builder_(Builder::Like(from)),
        forms_(from.values.size()),
        made_(from.values.size()) {}

  absl::StatusOr<Program> Run() {
    for (const Input& input : from_.inputs) {
      forms_[input.value][{}] = builder_.Input(from_, input);
    }
    for (size_t i = 0; i < from_.ops.size(); ++i) {
      const Op& op = from_.ops[i];
      bool halved = flow_.halved[i];
      int index = static_cast<int>(i);
      absl::Status status = halved ? AddHalves(index, op) : AddOp(index, op);
      if (!status.ok()) return Annotate(status, ToString(from_, op));
    }
    for (const Output& output : from_.outputs) {
      ASYRA_ASSIGN_OR_RETURN(ValueId value, Form(output.value, {}));
      bool is_state = output.alias != kNoValue;
      builder_.Output(value, is_state ? forms_[output.alias].at({}) : kNoValue,
                      from_.output_name(output));
    }
    return std::move(builder_).Finish();
  }

 private:
  // Returns the value with these places striped and no others.
  absl::StatusOr<ValueId> Form(ValueId value, const SequencePlaces& striped) {
    auto& forms = forms_[value];
    if (auto found = forms.find(striped); found != forms.end()) {
      return found->second;
    }
    const SequencePlaces& made = made_[value];
    ValueId form = forms.at(made);
    Renamer renamer(
        builder_, devices_,
        from_.value_name(value) + (striped.empty() ? ".natural" : ".striped"));
    for (const SequencePlace& place : made) {
      if (striped.contains(place)) continue;
      ASYRA_ASSIGN_OR_RETURN(form, renamer.Rename("unstripe", form, place));
    }
    for (const SequencePlace& place : striped) {
      if (made.contains(place)) continue;
      ASYRA_ASSIGN_OR_RETURN(form, renamer.Rename("stripe", form, place));
    }
    forms[striped] = form;
    return form;
  }

  absl::Status AddOp(int index, const Op& op) {
    Op copy = op;
    for (size_t k = 0; k < op.operands.size(); ++k) {
      ASYRA_ASSIGN_OR_RETURN(
          copy.operands[k],
          Form(op.operands[k], flow_.OfOperand(index, static_cast<int>(k))));
    }
    std::vector<std::string> names;
    for (ValueId result : op.results) names.push_back(from_.value_name(result));
    ASYRA_ASSIGN_OR_RETURN(std::vector<ValueId> results,
                           builder_.Insert(std::move(copy), names));
    for (size_t k = 0; k < results.size(); ++k) {
      made_[op.results[k]] = flow_.OfResult(index, static_cast<int>(k));
      forms_[op.results[k]][made_[op.results[k]]] = results[k];
    }
    return absl::OkStatus();
  }

  // The rows of an attention as two ops, each with one run of a device. Rows
  // of the second are behind all of the first.
  absl::Status AddHalves(int index, const Op& op) {
    const std::string name(from_.value_name(op.results[0]));
    Renamer renamer(builder_, devices_, name + ".stripes");
    int64_t rows = from_.type(op.operands[0]).size(1);
    ValueId halves[2];
    for (int64_t half : {0, 1}) {
      std::vector<ValueId> operands;
      for (size_t k = 0; k < op.operands.size(); ++k) {
        SequencePlaces places = flow_.OfOperand(index, static_cast<int>(k));
        ASYRA_ASSIGN_OR_RETURN(ValueId operand, Form(op.operands[k], places));
        for (const SequencePlace& place : places) {
          ASYRA_ASSIGN_OR_RETURN(operand,
                                 renamer.Half(operand, place.dim, half));
        }
        operands.push_back(operand);
      }
      AttrMap attrs = op.attrs;
      attrs.Set("offset", attrs.Int("offset") + half * rows / 2);
      attrs.Set("runs", half == 0 ? devices_ : -devices_);
      ASYRA_ASSIGN_OR_RETURN(
          halves[half],
          builder_.AddOne("attention", operands, std::move(attrs),
                          name + (half == 0 ? ".first" : ".second")));
    }
    SequencePlaces places = flow_.OfResult(index, 0);
    made_[op.results[0]] = places;
    ASYRA_ASSIGN_OR_RETURN(
        forms_[op.results[0]][places],
        renamer.Join(halves[0], halves[1], places.begin()->dim, name));
    return absl::OkStatus();
  }

  const Program& from_;
  const StripeFlow& flow_;
  const int64_t devices_;
  Builder builder_;
  // By value of from_: those that are there, and the places in which it was
  // made striped.
  std::vector<std::map<SequencePlaces, ValueId>> forms_;
  std::vector<SequencePlaces> made_;
};

}  // namespace

absl::StatusOr<std::optional<Program>> StripeSequence(const Program& program,
                                                      int64_t devices) {
  ASYRA_ASSIGN_OR_RETURN(StripeFlow flow, StripeFlow::Of(program, devices));
  if (!flow.finds()) return std::optional<Program>();
  ASYRA_ASSIGN_OR_RETURN(Program striped,
                         Striper(program, flow, devices).Run());
  return std::optional<Program>(std::move(striped));
}

}  // namespace asyra
