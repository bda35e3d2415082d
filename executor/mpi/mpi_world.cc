#include "executor/mpi/mpi_world.h"

#include "ir/support/status.h"

#ifdef ASYRA_MPI
#include "executor/mpi/mpi_collective.h"
#include "executor/mpi/mpi_link.h"

namespace asyra {
namespace {

class MpiCommunicator : public Communicator {
 public:
  explicit MpiCommunicator(std::shared_ptr<MpiLink> link)
      : link_(std::move(link)) {}

  std::string_view name() const override { return "mpi"; }
  std::string_view device() const override { return "cpu"; }
  int64_t rank() const override { return link_->rank(); }
  int64_t size() const override { return link_->size(); }

  absl::StatusOr<std::vector<std::string>> Exchange(
      std::string_view mine) override {
    return link_->Exchange(mine);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> PrepareCollective(
      const CollectiveUse& use) override {
    return PrepareMpiCollective(link_, use);
  }
  // Notices failures, for communicators of devices whose kernels cannot.
  absl::Status Check(double) override { return link_->Notice(); }
  void Abort(const absl::Status& cause) override { link_->Abort(cause); }

 private:
  std::shared_ptr<MpiLink> link_;
};

}  // namespace

bool HasMpi() { return true; }

absl::StatusOr<std::unique_ptr<Communicator>> ConnectMpi(
    const MpiWorldOptions& options) {
  ASYRA_ASSIGN_OR_RETURN(std::shared_ptr<MpiLink> link,
                         MpiLink::Connect(options));
  return std::make_unique<MpiCommunicator>(std::move(link));
}

}  // namespace asyra

#else

namespace asyra {

bool HasMpi() { return false; }

absl::StatusOr<std::unique_ptr<Communicator>> ConnectMpi(
    const MpiWorldOptions&) {
  return Unimplemented(
      "this build has no MPI: none was found when it was configured, or it was "
      "configured with -DASYRA_MPI=OFF");
}

}  // namespace asyra
#endif
