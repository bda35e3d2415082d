#include "frontends/huggingface/rope.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "fmt/format.h"

namespace asyra {
namespace {

// One rope: where its fields are, and what is known of it.
class Rope {
 public:
  // `own` are the fields of the rope, `model` those of the file.
  Rope(ConfigFields& own, ConfigFields& model, const RopeSizes& sizes)
      : own_(own), sizes_(sizes) {
    double theta =
        sizes.apart ? sizes.theta : model.Number("rope_theta", sizes.theta);
    theta_ = own.Number("rope_theta", theta);
    double partial = model.Number("partial_rotary_factor", sizes.partial);
    partial = own.Number("partial_rotary_factor", partial);
    size_ = std::floor(static_cast<double>(sizes.head_size) * partial);
    // An odd size has a frequency for its last element too.
    rotated_ = 2 * std::llround(std::ceil(size_ / 2));
    if (rotated_ < 2 || rotated_ > sizes.head_size) {
      own.Refuse("partial_rotary_factor",
                 fmt::format("is {}, it rotates {} of {} elements of a head",
                             partial, rotated_, sizes.head_size));
      rotated_ = 2;
      size_ = 2;
    }
    most_ = static_cast<double>(
        model.Count("max_position_embeddings", sizes.positions));
    original_ = own.Number("original_max_position_embeddings", most_);
    original_ = model.Number("original_max_position_embeddings", original_);
    type_ = own.Text("rope_type", own.Text("type", "default"));
    if (type_ == "su" || (type_ == "yarn" && sizes.yarn_is_long)) {
      type_ = "longrope";
    }
  }

  RotaryForm Form() {
    RotaryForm form = {.name = "rotary", .size = rotated_};
    if (type_ == "default") {
      form.frequencies = Plain(theta_);
    } else if (type_ == "linear") {
      form.frequencies = Plain(theta_);
      double factor = own_.Number("factor");
      for (double& frequency : form.frequencies) frequency /= factor;
    } else if (type_ == "dynamic") {
      form.frequencies = Dynamic();
    } else if (type_ == "llama3") {
      form.frequencies = Llama3();
    } else if (type_ == "yarn") {
      Yarn(&form);
    } else if (type_ == "longrope") {
      Long(&form);
    } else {
      own_.Refuse("rope_type",
                  fmt::format("is '{}', known are default, linear, dynamic, "
                              "llama3, yarn, longrope",
                              type_));
    }
    return form;
  }

 private:
  std::vector<double> Plain(double theta) const {
    std::vector<double> frequencies;
    for (int64_t i = 0; i < rotated_; i += 2) {
      frequencies.push_back(std::pow(theta, -static_cast<double>(i) / size_));
    }
    return frequencies;
  }

  std::vector<double> Dynamic() {
    if (size_ <= 2) {
      own_.Refuse("rope_type", "is dynamic, with 2 rotated elements of a head");
      return Plain(theta_);
    }
    double factor = own_.Number("factor");
    double seq = std::max(static_cast<double>(sizes_.seq), most_);
    return Plain(theta_ * std::pow(factor * seq / most_ - (factor - 1),
                                   size_ / (size_ - 2)));
  }

  std::vector<double> Llama3() {
    double factor = own_.Number("factor");
    double low = own_.Number("low_freq_factor");
    double high = own_.Number("high_freq_factor");
    std::vector<double> frequencies = Plain(theta_);
    for (double& frequency : frequencies) {
      double turns = original_ * frequency / (2 * M_PI);
      double kept = std::clamp((turns - low) / (high - low), 0.0, 1.0);
      frequency *= kept + (1 - kept) / factor;
    }
    return frequencies;
  }

  // The index of the frequency that makes so many turns.
  double IndexOf(double turns) const {
    return size_ * std::log(original_ / (turns * 2 * M_PI)) /
           (2 * std::log(theta_));
  }

  void Yarn(RotaryForm* form) {
    double factor = own_.Number("factor", most_ / original_);
    auto magnitude = [&](double share) {
      return factor <= 1 ? 1.0 : 0.1 * share * std::log(factor) + 1;
    };
    double by_default = own_.Has("mscale") && own_.Has("mscale_all_dim")
                            ? magnitude(own_.Number("mscale")) /
                                  magnitude(own_.Number("mscale_all_dim"))
                            : magnitude(1);
    form->magnitude = own_.Number("attention_factor", by_default);
    double low = IndexOf(own_.Number("beta_fast", 32));
    double high = IndexOf(own_.Number("beta_slow", 1));
    if (own_.Bool("truncate", true)) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, size_ - 1);
    if (low == high) high += 0.001;
    form->frequencies = Plain(theta_);
    for (size_t i = 0; i < form->frequencies.size(); ++i) {
      double divided =
          std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
      form->frequencies[i] *= 1 - divided + divided / factor;
    }
  }

  void Long(RotaryForm* form) {
    double factor = own_.Number("factor", most_ / original_);
    double by_default =
        factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(original_));
    form->magnitude = own_.Number("attention_factor", by_default);
    bool is_long = static_cast<double>(sizes_.seq) > original_;
    form->frequencies = Plain(theta_);
    std::vector<double> factors = own_.Numbers(
        is_long ? "long_factor" : "short_factor", form->frequencies.size());
    for (size_t i = 0; i < factors.size(); ++i) {
      form->frequencies[i] /= factors[i];
    }
  }

  ConfigFields& own_;
  const RopeSizes sizes_;
  double theta_ = 0, most_ = 0, original_ = 0;
  double size_ = 0;  // elements of a head that the angles are made for
  int64_t rotated_ = 0;
  std::string type_;
};

}  // namespace

RotaryForm RopeOf(ConfigFields& fields, std::string_view layer_type,
                  const RopeSizes& sizes) {
  static const auto* nothing = new nlohmann::json(nlohmann::json::object());
  const nlohmann::json* own = nothing;
  std::string path;
  for (std::string_view name : {"rope_scaling", "rope_parameters"}) {
    const nlohmann::json* found = fields.Find(name);
    if (found == nullptr) continue;
    path = fmt::format("{}.", name);
    if (found->is_object() && found->contains(layer_type)) {
      found = &(*found)[std::string(layer_type)];
      path = fmt::format("{}{}.", path, layer_type);
    } else if (sizes.apart) {
      continue;
    }
    if (!found->is_object()) {
      fields.Refuse(name, "is not an object");
      return {.name = "rotary", .size = 2, .frequencies = {1}};
    }
    own = found;
  }
  ConfigFields own_fields(*own, path);
  RotaryForm form = Rope(own_fields, fields, sizes).Form();
  fields.Take(own_fields.status());
  return form;
}

Tensor RopeTable(const RotaryForm& form, DType dtype, int64_t seq,
                 bool cosine) {
  std::vector<double> numbers;
  numbers.reserve(seq * form.frequencies.size());
  for (int64_t position = 0; position < seq; ++position) {
    for (double frequency : form.frequencies) {
      double angle = static_cast<double>(position) * frequency;
      numbers.push_back(form.magnitude *
                        (cosine ? std::cos(angle) : std::sin(angle)));
    }
  }
  return Tensor::FromDoubles(dtype, {seq, form.size / 2}, numbers);
}

}  // namespace asyra
