// Runs a compiled program on host memory: arguments, donated outputs, waiting.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/type.h"
#include "pjrt/client.h"
#include "run/copied.h"
#include "run/excess.h"
#include "run/host_lock.h"
#include "run/kept.h"
#include "run/relaid.h"
#include "run/stats.h"
#include "run/workers.h"

namespace torch_pjrt::run {

// One argument of the program.
struct Argument {
  enum class Kind : uint8_t {
    kInput,         // memory of the call's input `index`
    kConstant,      // the 0-d number whose bytes are `bits`
    kScalar,        // the call's 0-d number `index`
    kDraw,          // the call's draw `index`: two i64
    kOutputMemory,  // memory that the program writes its result `result` to
    kMutated,       // the same, and it is the memory of input `index`, which is read first
    kRelaid,        // a kept copy of input `index` in another memory order
  };
  Kind kind = Kind::kInput;
  int32_t index = 0;
  Type type;
  int32_t result = -1;
  int64_t bits = 0;
  std::shared_ptr<Relaid> relaid = nullptr;  // kRelaid
};

// The memory of one call, which is the caller's and stays until the call ends. Everything is dense
// and of the types that the program was made for. The memory of a kMutated argument may overlap
// that of other arguments: it is read before any result is written.
struct CallMemory {
  std::span<const void* const> inputs;
  std::span<const int64_t>
      scalars;                     // bytes of each number, the first of them at the lowest address
  std::span<void* const> outputs;  // one per result of the program
  std::span<const int64_t> draws = {};  // two numbers for each
};

// Where a call's program came from.
enum class Origin : uint8_t { kCompiled, kMemory, kDisk };
// The count of executions whose program came from there.
std::atomic<int64_t> Stats::* counter(Origin origin);

// An executable with what its calls keep. Any thread may call it; the client and the workers
// outlive it.
class Callable {
 public:
  Callable(const pjrt::Client& client, std::shared_ptr<const pjrt::Executable> executable,
           std::vector<Argument> arguments, std::vector<Type> results, Stats& stats,
           Workers& workers);

  // Returns when the results are in `memory.outputs` and nothing reads the inputs any more. After
  // an Error the outputs hold anything; this goes for what a kMutated argument's memory holds, too,
  // once the program has started. Gives the inputs that it had to copy.
  std::vector<Copied> run(const CallMemory& memory, Origin origin, HostLock& lock);

 private:
  struct Call;  // the state of one call

  // What one call leaves to the next: for each of mutated_, the buffer over the memory that the
  // program wrote. Calls at the same time have one each, and the last that ends leaves its own.
  struct Written {
    struct Slot {
      const void* data = nullptr;
      std::optional<pjrt::Buffer> buffer;
    };
    std::vector<Slot> slots;
    std::vector<size_t> by_address;  // positions of what the call reads and writes
  };
  std::unique_ptr<Written> take_written();
  void leave_written(std::unique_ptr<Written> written);

  // An argument that is read where it lies.
  struct Read {
    size_t position;
    size_t input;
  };

  void gather(Call& call, const CallMemory& memory);
  PJRT_Buffer* input(Call& call, size_t slot, const void* data);
  PJRT_Buffer* made(Call& call, const CallMemory& memory, size_t position);
  PJRT_Buffer* copied(Call& call, const void* data, const Type& type);
  void count_copy(Call& call, const Argument& argument, CopyReason reason);
  PJRT_Buffer* copy_in(Call& call, const CallMemory& memory, size_t position, CopyReason reason);
  PJRT_Buffer* written(Call& call, void* data, const Type& type);
  void take_relaid(Call& call, const CallMemory& memory);
  PJRT_Buffer* mutated(Call& call, const CallMemory& memory, size_t slot, bool overlaps);
  // Which arguments' memory overlaps that of another argument. Sorts `by_address`.
  std::vector<bool> overlapping(const CallMemory& memory, std::vector<size_t>& by_address) const;
  void execute(Call& call, HostLock& lock, bool is_short);
  void collect(Call& call, const CallMemory& memory);
  bool collect_result(const Call& call, const CallMemory& memory, size_t result);

  const pjrt::Client& client_;
  std::shared_ptr<const pjrt::Executable> executable_;
  std::vector<Argument> arguments_;
  std::vector<Type> results_;
  Stats& stats_;
  Workers& workers_;
  bool zero_copy_ = false;
  CopyReason unaligned_;  // why memory that can't be passed as it lies can't
  bool donates_ = false;
  std::vector<pjrt::Buffer> constants_;
  std::vector<PJRT_Buffer*> fixed_;  // the arguments' that are constants, else null
  std::vector<Read> reads_;          // kInput
  std::vector<size_t> relaid_;       // positions, kRelaid
  std::vector<size_t> mutated_;      // positions, kMutated
  std::vector<size_t> made_;         // positions of all others: made anew at each call
  Kept kept_;                        // a slot for each of reads_
  std::mutex written_mutex_;
  std::unique_ptr<Written> written_;  // null while a call has it
  std::atomic<int64_t> last_run_us_;
  Excess excess_;
};

}  // namespace torch_pjrt::run
