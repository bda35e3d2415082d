#include "tools/run/tuning_session.h"

#include <utility>

#include "ir/support/file.h"
#include "ir/support/status.h"
#include "tools/output_file.h"

namespace asyra {
namespace {

class TunedPlatform : public Platform {
 public:
  TunedPlatform(std::unique_ptr<Platform> platform,
                std::shared_ptr<TuningSession> session)
      : platform_(std::move(platform)), session_(std::move(session)) {}

  std::string_view name() const override { return platform_->name(); }
  absl::Status CheckRanks(int64_t ranks_here) const override {
    return platform_->CheckRanks(ranks_here);
  }
  absl::StatusOr<std::shared_ptr<Device>> MakeDevice(
      int64_t local_rank, int64_t ranks_on_host) override {
    ASYRA_ASSIGN_OR_RETURN(std::shared_ptr<Device> device,
                           platform_->MakeDevice(local_rank, ranks_on_host));
    ASYRA_RETURN_IF_ERROR(session_->Use(device->identity()));
    return device;
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      Communicator& control, Device& device) override {
    return platform_->Connect(control, device);
  }

 private:
  const std::unique_ptr<Platform> platform_;
  const std::shared_ptr<TuningSession> session_;
};

}  // namespace

void AddTuningFlags(CLI::App& app, TuningFlags* flags) {
  app.add_option("--tuning", flags->load,
                 "FILE of --save-tuning: its tuning results and kernels are "
                 "used instead of measured and compiled; refused where GPU, "
                 "driver or library versions differ");
  app.add_option("--save-tuning", flags->save,
                 "writes the tuning results, compiled kernels and decisions of "
                 "--gate that the run has used, for --tuning on devices that "
                 "are the same")
      ->check(OutputFile());
}

absl::StatusOr<std::shared_ptr<TuningSession>> TuningSession::Begin(
    const TuningFlags& flags, DiskCache& cache) {
  std::shared_ptr<TuningSession> session(new TuningSession(flags, cache));
  if (!flags.save.empty()) cache.Record();
  if (flags.load.empty()) return session;
  absl::StatusOr<std::string> bytes = ReadFile(flags.load);
  if (!bytes.ok()) return Annotate(bytes.status(), "--tuning");
  absl::StatusOr<TuningFile> file = ParseTuningFile(*bytes);
  if (!file.ok()) return Annotate(file.status(), "--tuning " + flags.load);
  session->file_ = *std::move(file);
  return session;
}

absl::Status TuningSession::Use(std::string_view identity) {
  std::lock_guard lock(mutex_);
  if (file_.has_value()) {
    ASYRA_RETURN_IF_ERROR(
        Annotate(CheckServes(*file_, identity), "--tuning " + flags_.load));
    if (identity_.empty()) cache_.Preload(file_->entries);
  }
  if (identity_.empty()) identity_ = identity;
  return absl::OkStatus();
}

absl::Status TuningSession::Save() const {
  if (flags_.save.empty()) return absl::OkStatus();
  std::lock_guard lock(mutex_);
  if (identity_.empty()) {
    return Invalid("--save-tuning {}: the run has used no device", flags_.save);
  }
  return Annotate(
      WriteTextFile(flags_.save, ToBytes({identity_, cache_.recorded()})),
      "--save-tuning");
}

std::unique_ptr<Platform> WithTuning(std::unique_ptr<Platform> platform,
                                     std::shared_ptr<TuningSession> session) {
  if (session == nullptr) return platform;
  return std::make_unique<TunedPlatform>(std::move(platform),
                                         std::move(session));
}

}  // namespace asyra
