// Device code for Hopper's tensor cores: their products (wgmma), the copy
// engine of an SM (TMA) and the barriers between them. Text for NVRTC:
// constants BF16, kF32, kBF16, PRODUCER_REGS and CONSUMER_REGS and the
// arguments of kernels are written before it, the functions Product* behind it
// (wgmma_text.h).
//
// Tiles lie in shared memory as the copy engine writes them with its 128-byte
// swizzle: panels of 64 columns, each with its rows at 128 bytes.

constexpr int kRowBytes = 128;  // of a panel

// Barriers ------------------------------------------------------------------

__device__ __forceinline__ uint32 SharedAddress(const void* at) {
  return static_cast<uint32>(__cvta_generic_to_shared(at));
}

__device__ __forceinline__ void InitBarrier(uint32 barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier),
               "r"(arrivals));
}

__device__ __forceinline__ void Expect(uint32 barrier, uint32 bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier),
      "r"(bytes)
      : "memory");
}

__device__ __forceinline__ void Arrive(uint32 barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void Wait(uint32 barrier, uint32 phase) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
      "@done bra over;\n"
      "bra again;\n"
      "over:\n"
      "}\n" ::"r"(barrier),
      "r"(phase)
      : "memory");
}

// A barrier of some warps.
__device__ __forceinline__ void Meet(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Counts the caller's threads at a barrier without waiting.
__device__ __forceinline__ void Announce(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// A ring of stages: which one, and the phase of its barriers.
struct Stage {
  int at = 0;
  uint32 phase = 0;
  __device__ __forceinline__ void Next(int stages) {
    if (++at == stages) {
      at = 0;
      phase ^= 1;
    }
  }
  __device__ __forceinline__ void Skip(int count, int stages) {
    at += count;
    phase ^= at / stages & 1;
    at %= stages;
  }
};

// Copies ----------------------------------------------------------------------

// Copies a box of a map over [b, rows, heads, columns] to shared memory.
__device__ __forceinline__ void CopyBox(const TensorMap* map, uint32 to,
                                        uint32 barrier, int column, int head,
                                        int row, int b) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::"
      "bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(column), "r"(head), "r"(row), "r"(b)
      : "memory");
}

// Copies a box to a map, in a group of its own; what lies outside is left out.
__device__ __forceinline__ void StoreBox(const TensorMap* map, uint32 from,
                                         int column, int head, int row, int b) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, "
      "%5}], [%1];\n"
      "cp.async.bulk.commit_group;" ::"l"(map),
      "r"(from), "r"(column), "r"(head), "r"(row), "r"(b)
      : "memory");
}

// Waits until all but kLeft groups of the thread's copies have read what they
// copy.
template <int kLeft>
__device__ __forceinline__ void WaitStores() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kLeft) : "memory");
}

// Makes ordinary stores to shared memory visible to tensor cores and copies.
__device__ __forceinline__ void FenceShared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Products --------------------------------------------------------------------

__device__ __forceinline__ void BeginProducts() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void EndProducts() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kLeft>
__device__ __forceinline__ void WaitProducts() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}
// Keeps the compiler from moving uses of results over waits.
template <int kCount>
__device__ __forceinline__ void Hold(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(values[i])::"memory");
}
template <int kCount>
__device__ __forceinline__ void Hold(uint32 (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(values[i])::"memory");
}

// A tile whose rows are contiguous along what is summed. Steps of 16 elements
// along it are 32 bytes in a panel.
__device__ __forceinline__ uint64 AlongRows(uint32 address) {
  return (uint64{(address & 0x3ffff) >> 4}) | (uint64{1} << 16) |
         (uint64{1024 >> 4} << 32) | (uint64{1} << 62);
}
// A tile whose rows are the elements that are summed: steps of 16 are 16 rows.
// `panel_bytes` lie between panels.
__device__ __forceinline__ uint64 AlongColumns(uint32 address,
                                               uint32 panel_bytes) {
  return (uint64{(address & 0x3ffff) >> 4}) |
         (uint64{(panel_bytes >> 4) & 0x3fff} << 16) |
         (uint64{1024 >> 4} << 32) | (uint64{1} << 62);
}

__device__ __forceinline__ float MaxOfQuad(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ __forceinline__ float SumOfQuad(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

// Panels of one tile, one behind the other, from a column on.
template <int kPanels>
__device__ __forceinline__ void CopyPanels(const TensorMap* map, uint32 to,
                                           uint32 panel_bytes, uint32 barrier,
                                           int head, int row, int b,
                                           int column = 0) {
  for (int c = 0; c < kPanels; ++c) {
    CopyBox(map, to + c * panel_bytes, barrier, column + 64 * c, head, row, b);
  }
}

// Copies so many neighbouring bytes, a multiple of 16, to shared memory.
__device__ __forceinline__ void CopyBytes(const void* from, uint32 to,
                                          uint32 bytes, uint32 barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
      "[%1], %2, [%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

__device__ __forceinline__ float4 LoadShared(uint32 at) {
  float4 values;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(values.x), "=f"(values.y), "=f"(values.z), "=f"(values.w)
               : "r"(at)
               : "memory");
  return values;
}

// Shared memory from the first multiple of 1024 on, where swizzles begin.
__device__ __forceinline__ uint32 Aligned(const void* memory) {
  return (SharedAddress(memory) + 1023) & ~1023u;
}

__device__ __forceinline__ void FenceBarriers() {
  FenceShared();
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void BeProducer() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(PRODUCER_REGS));
}
__device__ __forceinline__ void BeConsumer() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(CONSUMER_REGS));
}
