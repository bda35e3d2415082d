// Rows of experts without free ones (ir/ops/packed_rows.cc).
#include <cstring>
#include <numeric>

#include "executor/cpu/element.h"
#include "executor/cpu/gemm.h"
#include "executor/cpu/kernel_list.h"
#include "executor/cpu/workspace.h"
#include "ir/support/status.h"

namespace asyra::cpu {
namespace {

using Prepared = absl::StatusOr<std::unique_ptr<Kernel>>;

int64_t LastOf(const Type& type) { return type.dims.back().size; }

// Consecutive rows of one expert; `group` is among all of the rank.
struct Segment {
  int64_t group, expert, begin, end;
};

// The segments of `rows` in the groups of ends[..., groups, experts].
class Segments {
 public:
  Segments(const Type& ends, int64_t rows)
      : dtype_(ends.dtype),
        experts_(LastOf(ends)),
        groups_(experts_ > 0 ? ends.num_elements() / experts_ : 0),
        group_rows_(groups_ > 0 ? rows / groups_ : 0),
        groups_of_lead_(ends.size(ends.rank() - 2)) {}

  template <typename Visit>
  absl::Status ForEach(const void* ends, Visit visit) const {
    for (int64_t g = 0; g < groups_; ++g) {
      int64_t row = 0;
      for (int64_t e = 0; e < experts_; ++e) {
        int64_t end = e + 1 == experts_
                          ? group_rows_
                          : IntegerAt(dtype_, ends, g * experts_ + e);
        end = std::clamp(end, row, group_rows_);
        ASYRA_RETURN_IF_ERROR(
            visit({g, e, g * group_rows_ + row, g * group_rows_ + end}));
        row = end;
      }
    }
    return absl::OkStatus();
  }

  // The sum that an expert's rows of a group belong to.
  int64_t SumOf(const Segment& segment) const {
    return segment.group / groups_of_lead_ * experts_ + segment.expert;
  }

 private:
  DType dtype_;
  int64_t experts_, groups_, group_rows_, groups_of_lead_;
};

class SortKernel : public CpuKernel {
 public:
  explicit SortKernel(const KernelUse& use)
      : dtype_(use.operand(0).dtype),
        count_(use.operand(0).num_elements()),
        experts_(use.attrs().Int("num_experts")),
        rows_(use.attrs().Int("group_size") * LastOf(use.operand(0))) {}
  int64_t workspace_bytes() const override { return experts_ * 8; }

  absl::Status Run(const KernelArgs& args) override {
    auto* places = static_cast<int32_t*>(args.results[0]);
    auto* sources = static_cast<int32_t*>(args.results[1]);
    auto* ends = static_cast<int32_t*>(args.results[2]);
    auto* next = static_cast<int64_t*>(args.workspace);
    for (int64_t first = 0; first < count_; first += rows_) {
      std::fill_n(next, experts_, int64_t{0});
      for (int64_t i = 0; i < rows_; ++i) {
        int64_t expert = IntegerAt(dtype_, args.operands[0], first + i);
        if (expert < 0 || expert >= experts_) {
          return Invalid("expert {} is not in [0, {})", expert, experts_);
        }
        ++next[expert];
      }
      int64_t row = 0;
      for (int64_t e = 0; e < experts_; ++e) {
        row += next[e];
        next[e] = row - next[e];
        *ends++ = static_cast<int32_t>(row);
      }
      for (int64_t i = 0; i < rows_; ++i) {
        int64_t place = next[IntegerAt(dtype_, args.operands[0], first + i)]++;
        places[first + i] = static_cast<int32_t>(place);
        sources[first + place] = static_cast<int32_t>(i);
      }
    }
    return absl::OkStatus();
  }

 private:
  DType dtype_;
  int64_t count_, experts_, rows_;
};

class DispatchKernel : public CpuKernel {
 public:
  explicit DispatchKernel(const KernelUse& use)
      : dtype_(use.operand(1).dtype),
        element_(use.operand(0).dtype),
        weighs_(use.num_operands() == 3),
        rows_(use.operand(1).num_elements()),
        hidden_(LastOf(use.operand(0))),
        row_bytes_(hidden_ * SizeOf(element_)),
        group_size_(use.attrs().Int("group_size")),
        chosen_(LastOf(use.operand(1)) /
                use.operand(0).size(use.operand(0).rank() - 2)) {}
  int64_t workspace_bytes() const override { return weighs_ ? hidden_ * 8 : 0; }

  absl::Status Run(const KernelArgs& args) override {
    const auto* from = static_cast<const std::byte*>(args.operands[0]);
    auto* to = static_cast<std::byte*>(args.results[0]);
    int64_t n = group_size_ * chosen_;
    for (int64_t row = 0; row < rows_; ++row) {
      int64_t source = IntegerAt(dtype_, args.operands[1], row);
      if (source < 0 || source >= n) {
        return Invalid("source {} is not in [0, {})", source, n);
      }
      int64_t token = row / n * group_size_ + source / chosen_;
      if (weighs_) {
        Weigh(args, row / n * n + source, token, row);
      } else {
        std::memcpy(to + row * row_bytes_, from + token * row_bytes_,
                    row_bytes_);
      }
    }
    return absl::OkStatus();
  }

 private:
  void Weigh(const KernelArgs& args, int64_t choice, int64_t token,
             int64_t row) {
    auto* values = static_cast<double*>(args.workspace);
    double weight = 0;
    Load(element_, ElementAt(element_, args.operands[2], choice), 1, &weight);
    Load(element_, ElementAt(element_, args.operands[0], token * hidden_),
         hidden_, values);
    for (int64_t h = 0; h < hidden_; ++h) values[h] *= weight;
    Store(element_, values, hidden_,
          ElementAt(element_, args.results[0], row * hidden_));
  }

  DType dtype_, element_;
  bool weighs_;
  int64_t rows_, hidden_, row_bytes_, group_size_, chosen_;
};

// packed_collect, with weights packed_combine, with tokens packed_dot.
class CollectKernel : public CpuKernel {
 public:
  explicit CollectKernel(const KernelUse& use)
      : index_(use.operand(1).dtype),
        dtype_(use.operand(0).dtype),
        choices_(use.operand(1).num_elements()),
        hidden_(LastOf(use.operand(0))),
        chosen_(LastOf(use.operand(1))),
        group_rows_(use.attrs().Int("group_size") * chosen_),
        combines_(use.def().name == "packed_combine"),
        multiplies_(use.def().name == "packed_dot") {
    sum_at_ = layout_.Add(hidden_ * 8);
    row_at_ = layout_.Add(hidden_ * 8);
  }
  int64_t workspace_bytes() const override { return layout_.bytes(); }

  absl::Status Run(const KernelArgs& args) override {
    for (int64_t i = 0; i < choices_; ++i) {
      int64_t place = IntegerAt(index_, args.operands[1], i);
      if (place < 0 || place >= group_rows_) {
        return Invalid("place {} is not in [0, {})", place, group_rows_);
      }
      int64_t row = i / group_rows_ * group_rows_ + place;
      if (combines_) {
        Add(args, i, row);
      } else if (multiplies_) {
        Multiply(args, i, row);
      } else {
        std::memcpy(ElementAt(dtype_, args.results[0], i * hidden_),
                    ElementAt(dtype_, args.operands[0], row * hidden_),
                    hidden_ * SizeOf(dtype_));
      }
    }
    return absl::OkStatus();
  }

 private:
  void Add(const KernelArgs& args, int64_t choice, int64_t row) {
    auto* sum = WorkspaceAt<double>(args.workspace, sum_at_);
    auto* values = WorkspaceAt<double>(args.workspace, row_at_);
    if (choice % chosen_ == 0) std::fill_n(sum, hidden_, 0.0);
    double weight = 0;
    Load(dtype_, ElementAt(dtype_, args.operands[2], choice), 1, &weight);
    Load(dtype_, ElementAt(dtype_, args.operands[0], row * hidden_), hidden_,
         values);
    for (int64_t h = 0; h < hidden_; ++h) sum[h] += weight * values[h];
    if (choice % chosen_ != chosen_ - 1) return;
    Store(dtype_, sum, hidden_,
          ElementAt(dtype_, args.results[0], choice / chosen_ * hidden_));
  }

  void Multiply(const KernelArgs& args, int64_t choice, int64_t row) {
    auto* token = WorkspaceAt<double>(args.workspace, sum_at_);
    auto* values = WorkspaceAt<double>(args.workspace, row_at_);
    int64_t from = choice / chosen_ * hidden_;
    Load(dtype_, ElementAt(dtype_, args.operands[2], from), hidden_, token);
    Load(dtype_, ElementAt(dtype_, args.operands[0], row * hidden_), hidden_,
         values);
    double sum = std::inner_product(values, values + hidden_, token, 0.0);
    Store(dtype_, &sum, 1, ElementAt(dtype_, args.results[0], choice));
  }

  DType index_, dtype_;
  int64_t choices_, hidden_, chosen_, group_rows_;
  bool combines_, multiplies_;
  WorkspaceLayout layout_;
  int64_t sum_at_, row_at_;
};

// Matmuls of rows whose number is known when they run: so many at a time, and
// one by one. Half precision is computed in single.
class SegmentKernel : public CpuKernel {
 public:
  int64_t workspace_bytes() const override { return layout_.bytes(); }

 protected:
  static constexpr int64_t kBlock = 16;

  SegmentKernel(const KernelUse& use, int64_t rows)
      : dtype_(use.operand(0).dtype),
        result_(use.result(0).dtype),
        computed_(dtype_ == DType::kF64 ? DType::kF64 : DType::kF32),
        segments_(use.operand(2), rows),
        counts_{use.operand(0).num_elements(), use.operand(1).num_elements(),
                use.result(0).num_elements()} {
    for (int i = 0; i < 3; ++i) {
      at_[i] = layout_.Add(Converts(i) ? counts_[i] * 4 : 0);
    }
  }

  // Creates the gemms of a block of rows and of one row.
  absl::Status Create(GemmShape shape, int64_t GemmShape::*rows) {
    for (int64_t count : {kBlock, int64_t{1}}) {
      shape.dtype = computed_;
      shape.*rows = count;
      ASYRA_ASSIGN_OR_RETURN(gemms_.emplace_back(), Gemm::Create(shape));
    }
    gemm_at_ = layout_.Add(
        std::max(gemms_[0]->workspace_bytes(), gemms_[1]->workspace_bytes()));
    return absl::OkStatus();
  }

  // Calls a gemm for the rows of each segment; `at` gives the first elements of
  // a, b and c for rows from `row` on.
  template <typename At>
  absl::Status RunAll(const KernelArgs& args, At at) {
    const void* a = Operand(args, 0);
    const void* b = Operand(args, 1);
    void* c = Converts(2) ? WorkspaceAt<void>(args.workspace, at_[2])
                          : args.results[0];
    std::memset(c, 0, counts_[2] * SizeOf(computed_));
    ASYRA_RETURN_IF_ERROR(
        segments_.ForEach(args.operands[2], [&](const Segment& segment) {
          for (int64_t row = segment.begin; row < segment.end;) {
            bool block = segment.end - row >= kBlock;
            std::array<int64_t, 3> first = at(segment, row);
            ASYRA_RETURN_IF_ERROR(gemms_[block ? 0 : 1]->Run(
                ElementAt(computed_, a, first[0]),
                ElementAt(computed_, b, first[1]),
                ElementAt(computed_, c, first[2]),
                WorkspaceAt<void>(args.workspace, gemm_at_)));
            row += block ? kBlock : 1;
          }
          return absl::OkStatus();
        }));
    if (args.operands.size() > 3) AddResidual(args.operands[3], c);
    if (Converts(2)) {
      Store(result_, static_cast<const float*>(c), counts_[2], args.results[0]);
    }
    return absl::OkStatus();
  }

  const Segments& segments() const { return segments_; }

 private:
  bool Converts(int i) const { return (i < 2 ? dtype_ : result_) != computed_; }

  // Adds a residual of the result's type to the sums `c`, in parts.
  void AddResidual(const void* residual, void* c) const {
    std::array<double, 256> values, sums;
    for (int64_t at = 0; at < counts_[2]; at += 256) {
      int64_t count = std::min<int64_t>(256, counts_[2] - at);
      void* to = ElementAt(computed_, c, at);
      Load(dtype_, ElementAt(dtype_, residual, at), count, values.data());
      Load(computed_, to, count, sums.data());
      for (int64_t i = 0; i < count; ++i) sums[i] += values[i];
      Store(computed_, sums.data(), count, to);
    }
  }

  const void* Operand(const KernelArgs& args, int i) {
    if (!Converts(i)) return args.operands[i];
    auto* to = WorkspaceAt<float>(args.workspace, at_[i]);
    Load(dtype_, args.operands[i], counts_[i], to);
    return to;
  }

  DType dtype_, result_, computed_;
  Segments segments_;
  std::array<int64_t, 3> counts_, at_;  // of a, b, c
  std::vector<std::unique_ptr<Gemm>> gemms_;
  WorkspaceLayout layout_;
  int64_t gemm_at_ = 0;
};

int64_t RowsOf(const KernelUse& use) {
  return use.operand(0).num_elements() / LastOf(use.operand(0));
}

class MatmulKernel : public SegmentKernel {
 public:
  explicit MatmulKernel(const KernelUse& use)
      : SegmentKernel(use, RowsOf(use)),
        in_(LastOf(use.operand(0))),
        out_(LastOf(use.result(0))) {}

  absl::Status Prepare(bool transpose) {
    return Create({.n = out_,
                   .k = in_,
                   .a_row = in_,
                   .b_row = transpose ? 1 : out_,
                   .b_column = transpose ? in_ : 1,
                   .c_row = out_},
                  &GemmShape::m);
  }

  absl::Status Run(const KernelArgs& args) override {
    return RunAll(args, [&](const Segment& segment, int64_t row) {
      return std::array<int64_t, 3>{row * in_, segment.expert * in_ * out_,
                                    row * out_};
    });
  }

 private:
  int64_t in_, out_;
};

class WgradKernel : public SegmentKernel {
 public:
  explicit WgradKernel(const KernelUse& use)
      : SegmentKernel(use, RowsOf(use)),
        m_(LastOf(use.operand(0))),
        n_(LastOf(use.operand(1))) {}

  absl::Status Prepare() {
    return Create({.m = m_,
                   .n = n_,
                   .a_row = 1,
                   .a_column = m_,
                   .b_row = n_,
                   .c_row = n_,
                   .accumulates = true},
                  &GemmShape::k);
  }

  absl::Status Run(const KernelArgs& args) override {
    return RunAll(args, [&](const Segment& segment, int64_t row) {
      return std::array<int64_t, 3>{row * m_, row * n_,
                                    segments().SumOf(segment) * m_ * n_};
    });
  }

 private:
  int64_t m_, n_;
};

class SumKernel : public CpuKernel {
 public:
  explicit SumKernel(const KernelUse& use)
      : dtype_(use.operand(0).dtype),
        hidden_(LastOf(use.operand(0))),
        results_(use.result(0).num_elements()),
        segments_(use.operand(1), RowsOf(use)) {
    sums_at_ = layout_.Add(results_ * 8);
    row_at_ = layout_.Add(hidden_ * 8);
  }
  int64_t workspace_bytes() const override { return layout_.bytes(); }

  absl::Status Run(const KernelArgs& args) override {
    auto* sums = WorkspaceAt<double>(args.workspace, sums_at_);
    auto* values = WorkspaceAt<double>(args.workspace, row_at_);
    std::fill_n(sums, results_, 0.0);
    ASYRA_RETURN_IF_ERROR(
        segments_.ForEach(args.operands[1], [&](const Segment& segment) {
          double* sum = sums + segments_.SumOf(segment) * hidden_;
          for (int64_t row = segment.begin; row < segment.end; ++row) {
            Load(dtype_, ElementAt(dtype_, args.operands[0], row * hidden_),
                 hidden_, values);
            for (int64_t h = 0; h < hidden_; ++h) sum[h] += values[h];
          }
          return absl::OkStatus();
        }));
    Store(dtype_, sums, results_, args.results[0]);
    return absl::OkStatus();
  }

 private:
  DType dtype_;
  int64_t hidden_, results_;
  Segments segments_;
  WorkspaceLayout layout_;
  int64_t sums_at_, row_at_;
};

class ExpandKernel : public CpuKernel {
 public:
  explicit ExpandKernel(const KernelUse& use)
      : row_bytes_(LastOf(use.operand(0)) * SizeOf(use.operand(0).dtype)),
        segments_(use.operand(1),
                  use.result(0).num_elements() / LastOf(use.operand(0))) {}

  absl::Status Run(const KernelArgs& args) override {
    const auto* from = static_cast<const std::byte*>(args.operands[0]);
    auto* to = static_cast<std::byte*>(args.results[0]);
    return segments_.ForEach(args.operands[1], [&](const Segment& segment) {
      for (int64_t row = segment.begin; row < segment.end; ++row) {
        std::memcpy(to + row * row_bytes_, from + segment.expert * row_bytes_,
                    row_bytes_);
      }
      return absl::OkStatus();
    });
  }

 private:
  int64_t row_bytes_;
  Segments segments_;
};

template <typename K>
Prepared Prepare(const KernelUse& use) {
  return std::make_unique<K>(use);
}

Prepared PrepareMatmul(const KernelUse& use) {
  auto kernel = std::make_unique<MatmulKernel>(use);
  ASYRA_RETURN_IF_ERROR(kernel->Prepare(use.attrs().Bool("transpose_b")));
  return kernel;
}

Prepared PrepareWgrad(const KernelUse& use) {
  auto kernel = std::make_unique<WgradKernel>(use);
  ASYRA_RETURN_IF_ERROR(kernel->Prepare());
  return kernel;
}

// Something to move or to multiply.
bool HasElements(const KernelUse& use) {
  for (int i = 0; i < use.num_operands(); ++i) {
    if (use.operand(i).num_elements() == 0) return false;
  }
  return true;
}

}  // namespace

std::vector<CpuKernelDef> PackedRowsKernels() {
  return {{"moe_sort", HasElements, Prepare<SortKernel>},
          {"packed_dispatch", HasElements, Prepare<DispatchKernel>},
          {"packed_collect", HasElements, Prepare<CollectKernel>},
          {"packed_combine", HasElements, Prepare<CollectKernel>},
          {"packed_dot", HasElements, Prepare<CollectKernel>},
          {"packed_matmul", HasElements, PrepareMatmul},
          {"packed_wgrad", HasElements, PrepareWgrad},
          {"packed_sum", HasElements, Prepare<SumKernel>},
          {"packed_expand", HasElements, Prepare<ExpandKernel>}};
}

}  // namespace asyra::cpu
