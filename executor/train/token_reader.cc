#include "executor/train/token_reader.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "executor/train/window_order.h"
#include "ir/support/out_of_memory.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// A rank's part of a batch, in rows and columns.
struct Part {
  int64_t row = 0, rows = 0, column = 0, columns = 0;
};

Part PartOf(const Type& type, const Mesh& mesh, int64_t device) {
  Shape local = type.Local(mesh).shape();
  return {ShardStart(type.dims[0], mesh, device), local[0],
          ShardStart(type.dims[1], mesh, device), local[1]};
}

// Makes the batches. Thread-safe.
class BatchMaker {
 public:
  BatchMaker(std::shared_ptr<const TokenFiles> files, int64_t length, Part part,
             const TokenReaderOptions& options)
      : files_(std::move(files)),
        length_(length),
        part_(part),
        options_(options) {}

  int64_t windows() const { return options_.windows.count; }

  std::string Order() const {
    const WindowRange& range = options_.windows;
    return fmt::format(
        "{} windows of {} tokens{}, {}", range.count, length_,
        range.first > 0 ? fmt::format(" from window {}", range.first) : "",
        options_.shuffle ? fmt::format("shuffled by seed {}", options_.seed)
                         : "not shuffled");
  }

  absl::StatusOr<TokenReader::Batch> At(int64_t position) const {
    Shape shape = {part_.rows, part_.columns};
    // Documents begin in columns before this rank's.
    int64_t before = options_.document_end.has_value() ? part_.column : 0;
    std::vector<int64_t> tokens, labels, starts,
        row(before + part_.columns + 1);
    for (int64_t r = 0; r < part_.rows; ++r) {
      int64_t begin = BeginOf(position + part_.row + r) + part_.column - before;
      ASYRA_RETURN_IF_ERROR(
          files_->Read(begin, options_.limit, absl::MakeSpan(row)));
      tokens.insert(tokens.end(), row.begin() + before, row.end() - 1);
      labels.insert(labels.end(), row.begin() + before + 1, row.end());
      if (options_.document_end.has_value()) AddStarts(row, before, &starts);
    }
    TokenReader::Batch batch = {Tensor::FromInts(DType::kI64, shape, tokens),
                                Tensor::FromInts(DType::kI64, shape, labels)};
    batch.column = part_.column;
    if (options_.document_end.has_value()) {
      batch.starts = Tensor::FromInts(DType::kI64, shape, starts);
    }
    return batch;
  }

 private:
  // Adds the starts of the tokens of a row from `before` on but its last.
  void AddStarts(absl::Span<const int64_t> row, int64_t before,
                 std::vector<int64_t>* starts) const {
    auto size = static_cast<int64_t>(row.size());
    int64_t start = 0;
    for (int64_t i = 0; i + 1 < size; ++i) {
      if (i >= before) starts->push_back(start);
      if (row[i] == options_.document_end) start = i + 1;
    }
  }

  // First token of the window that is taken as number `taken`.
  int64_t BeginOf(int64_t taken) const {
    int64_t window = taken % windows();
    if (options_.shuffle) {
      window =
          WindowOrder(windows(), options_.seed, taken / windows()).At(window);
    }
    return (options_.windows.first + window) * length_;
  }

  const std::shared_ptr<const TokenFiles> files_;
  const int64_t length_;
  const Part part_;
  const TokenReaderOptions options_;
};

class ThreadedReader : public TokenReader {
 public:
  ThreadedReader(std::unique_ptr<BatchMaker> maker, int64_t rows, int prefetch)
      : maker_(std::move(maker)),
        order_(maker_->Order()),
        rows_(rows),
        prefetch_(static_cast<size_t>(std::max(1, prefetch))),
        thread_([this] { Run(); }) {}

  ~ThreadedReader() override {
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  absl::StatusOr<Batch> Next() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !ready_.empty(); });
    absl::StatusOr<Batch> batch = std::move(ready_.front());
    ready_.pop_front();
    if (batch.ok()) {
      position_ += rows_;
    } else {
      Restart();  // the same batch is tried again
    }
    lock.unlock();
    changed_.notify_all();
    return batch;
  }

  int64_t position() const override {
    std::lock_guard lock(mutex_);
    return position_;
  }

  void Seek(int64_t position) override {
    {
      std::lock_guard lock(mutex_);
      position_ = position;
      Restart();
    }
    changed_.notify_all();
  }

  int64_t windows() const override { return maker_->windows(); }
  const std::string& order() const override { return order_; }

 private:
  // Forgets what was read ahead. The lock is held.
  void Restart() {
    ready_.clear();
    next_ = position_;
    ++starts_;
  }

  void Run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock,
                    [this] { return stopped_ || ready_.size() < prefetch_; });
      if (stopped_) return;
      int64_t starts = starts_, position = next_;
      lock.unlock();
      absl::StatusOr<Batch> batch =
          WithinMemory([&] { return maker_->At(position); });
      lock.lock();
      if (starts != starts_) continue;
      next_ = position + rows_;
      ready_.push_back(std::move(batch));
      changed_.notify_all();
    }
  }

  const std::unique_ptr<BatchMaker> maker_;
  const std::string order_;
  const int64_t rows_;
  const size_t prefetch_;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::deque<absl::StatusOr<Batch>> ready_;
  int64_t position_ = 0, next_ = 0;  // of Next, of the thread
  int64_t starts_ = 0;
  bool stopped_ = false;
  std::thread thread_;  // the last: it uses the others
};

}  // namespace

absl::StatusOr<int64_t> DocumentsOfAWindow(const TokenFiles& files, int64_t end,
                                           int64_t length) {
  constexpr int64_t kParts = 16, kPart = 65536;
  std::vector<int64_t> tokens(std::min(files.size(), kPart));
  int64_t last = files.size() - static_cast<int64_t>(tokens.size());
  double ends = 0;
  for (int64_t i = 0; i < kParts; ++i) {
    ASYRA_RETURN_IF_ERROR(
        files.Read(last * i / (kParts - 1), INT64_MAX, absl::MakeSpan(tokens)));
    ends += static_cast<double>(absl::c_count(tokens, end));
  }
  double read =
      static_cast<double>(kParts) * static_cast<double>(tokens.size());
  return std::max<int64_t>(
      1, std::llround(ends / read * static_cast<double>(length)));
}

int64_t NumWindows(const TokenFiles& files, int64_t length) {
  return (files.size() - 1) / std::max<int64_t>(1, length);
}

absl::StatusOr<std::unique_ptr<TokenReader>> TokenReader::Open(
    std::shared_ptr<const TokenFiles> files, const Type& tokens,
    const Mesh& mesh, int64_t device, const TokenReaderOptions& options) {
  bool fits = tokens.dtype == DType::kI64 && tokens.rank() == 2;
  if (!fits || tokens.num_elements() == 0) {
    return Invalid("tokens are {}, they should be i64[rows, length]",
                   ToString(tokens, mesh));
  }
  int64_t length = tokens.size(1), all = NumWindows(*files, length);
  if (all < 1) {
    return Invalid("the data has {} {}, a row takes {} and one more",
                   files->size(), files->is_bytes() ? "bytes" : "tokens",
                   length);
  }
  TokenReaderOptions chosen = options;
  WindowRange& range = chosen.windows;
  if (range.count < 0) range.count = all - range.first;
  if (range.first < 0 || range.count < 1 || range.count > all - range.first) {
    return Invalid("windows {} to {} of data that has {} of {} tokens",
                   range.first, range.first + range.count, all, length);
  }
  return std::make_unique<ThreadedReader>(
      std::make_unique<BatchMaker>(std::move(files), length,
                                   PartOf(tokens, mesh, device), chosen),
      tokens.size(0), chosen.prefetch);
}

}  // namespace asyra
