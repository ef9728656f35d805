#include "run/call.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "pjrt/host_memory.h"
#include "run/content.h"

namespace torch_pjrt::run {
namespace {

using Clock = std::chrono::steady_clock;

// An Await that has to sleep costs two thread wake-ups: most small programs are done before.
constexpr int64_t kSpinUs = 100;
// A program whose last run took less keeps the host's lock: taking it back from another busy thread
// can cost milliseconds.
constexpr int64_t kShortRunUs = 200;
// Only a run that takes longer needs memory that counts.
constexpr int64_t kLongRunUs = 2000;
constexpr int64_t kNeverRan = std::numeric_limits<int64_t>::max();

bool is_aligned(const void* data) {
  return reinterpret_cast<uintptr_t>(data) % pjrt::kHostAlignment == 0;
}

// False also where the plugin doesn't tell.
bool lies_at(const pjrt::Buffer& buffer, const void* data) {
  try {
    return buffer.unsafe_pointer() == data;
  } catch (const Error&) {
    return false;
  }
}

// Leaves no program running behind an error: the memory that it uses goes when the call does.
void wait_for(const pjrt::Event& event, HostLock& lock, bool is_short) {
  bool ready = false;
  try {
    ready = event.poll(kSpinUs);
  } catch (const Error&) {
    lock.release();
    event.await();
    throw;
  }
  if (!ready && is_short) lock.release();
  event.await();  // also when it is complete: this is where its error is found
}

// Most arguments stay where they were, so few have moved past others since the last call.
template <typename Range>
void sort_nearly_sorted(std::vector<Range>& ranges) {
  size_t moves = 0;
  for (size_t k = 1; k < ranges.size(); ++k) {
    const Range range = ranges[k];
    size_t place = k;
    for (; place > 0 && range.begin < ranges[place - 1].begin; --place) {
      ranges[place] = ranges[place - 1];
      ++moves;
    }
    ranges[place] = range;
    if (moves > 8 * ranges.size()) {
      std::ranges::sort(ranges, {}, &Range::begin);
      return;
    }
  }
}

size_t count_reads(const std::vector<Argument>& arguments) {
  return static_cast<size_t>(
      std::ranges::count(arguments, Argument::Kind::kInput, &Argument::kind));
}

}  // namespace

std::atomic<int64_t> Stats::* counter(Origin origin) {
  switch (origin) {
    case Origin::kCompiled:
      return &Stats::compiles;
    case Origin::kMemory:
      return &Stats::memory_hits;
    case Origin::kDisk:
      return &Stats::disk_hits;
  }
  fail(Code::kInternal, "no such origin of a program: ", static_cast<int>(origin));
}

struct Callable::Call {
  explicit Call(Callable& callable) : use(callable.kept_), buffers(callable.fixed_) {
    own.reserve(callable.made_.size() + callable.mutated_.size());
  }

  std::vector<pjrt::Buffer> own;  // buffers of this call only
  std::vector<std::shared_ptr<const Relaid::Copy>> copies;
  Kept::Use use;
  std::vector<PJRT_Buffer*> buffers;  // the program's arguments, in order
  std::unique_ptr<Written> written;
  std::vector<Copied> copied;
  std::vector<pjrt::Buffer> outputs;
};

Callable::Callable(const pjrt::Client& client, std::shared_ptr<const pjrt::Executable> executable,
                   std::vector<Argument> arguments, std::vector<Type> results, Stats& stats,
                   Workers& workers)
    : client_(client),
      executable_(std::move(executable)),
      arguments_(std::move(arguments)),
      results_(std::move(results)),
      stats_(stats),
      workers_(workers),
      zero_copy_(client.host_memory().zero_copy_in),
      unaligned_(zero_copy_ ? CopyReason::kNotAligned : CopyReason::kDeviceMemory),
      fixed_(arguments_.size()),
      kept_(count_reads(arguments_)),
      last_run_us_(kNeverRan) {
  if (executable_->num_outputs() != results_.size()) {
    fail(Code::kInternal, "the program has ", executable_->num_outputs(), " results, not ",
         results_.size());
  }
  for (size_t i = 0; i < arguments_.size(); ++i) {
    const Argument& a = arguments_[i];
    if (a.kind == Argument::Kind::kInput) {
      reads_.push_back({i, static_cast<size_t>(a.index)});
    } else if (a.kind == Argument::Kind::kConstant) {
      constants_.push_back(
          client_.from_host(&a.bits, a.type, pjrt::HostSemantics::kImmutableOnlyDuringCall));
      fixed_[i] = constants_.back().get();
    } else if (a.kind == Argument::Kind::kRelaid) {
      relaid_.push_back(i);
    } else if (a.kind == Argument::Kind::kMutated) {
      mutated_.push_back(i);
    } else {
      made_.push_back(i);
    }
    donates_ |= a.kind == Argument::Kind::kMutated || a.kind == Argument::Kind::kOutputMemory;
  }
}

std::vector<Copied> Callable::run(const CallMemory& memory, Origin origin, HostLock& lock) {
  const int64_t last_us = last_run_us_.load(std::memory_order_relaxed);
  const bool is_short = last_us < kShortRunUs;
  const Reacquire reacquire(lock);
  if (!is_short) lock.release();
  if (last_us > kLongRunUs && last_us != kNeverRan) excess_.release();
  Call call(*this);
  gather(call, memory);
  stats_.add(&Stats::executions);
  stats_.add(counter(origin));
  execute(call, lock, is_short);
  collect(call, memory);
  return std::move(call.copied);
}

void Callable::count_copy(Call& call, const Argument& argument, CopyReason reason) {
  call.copied.push_back({argument.index, reason});
  stats_.add(&Stats::copied_inputs);
  stats_.add(&Stats::host_to_device_bytes, argument.type.num_bytes());
}

PJRT_Buffer* Callable::copied(Call& call, const void* data, const Type& type) {
  call.own.push_back(client_.from_host(data, type, pjrt::HostSemantics::kImmutableOnlyDuringCall));
  return call.own.back().get();
}

PJRT_Buffer* Callable::written(Call& call, void* data, const Type& type) {
  call.own.push_back(client_.from_host(data, type, pjrt::HostSemantics::kMutableZeroCopy));
  return call.own.back().get();
}

std::unique_ptr<Callable::Written> Callable::take_written() {
  if (mutated_.empty()) return nullptr;
  std::unique_ptr<Written> written;
  {
    const std::lock_guard lock(written_mutex_);
    written = std::move(written_);
  }
  if (written) return written;
  written = std::make_unique<Written>();
  written->slots.resize(mutated_.size());
  for (const Read& read : reads_) written->by_address.push_back(read.position);
  written->by_address.insert(written->by_address.end(), mutated_.begin(), mutated_.end());
  return written;
}

void Callable::leave_written(std::unique_ptr<Written> written) {
  const std::lock_guard lock(written_mutex_);
  written_.swap(written);  // another's is destroyed after the lock
}

std::vector<bool> Callable::overlapping(const CallMemory& memory,
                                        std::vector<size_t>& by_address) const {
  struct Range {
    uintptr_t begin;
    uintptr_t end;
    size_t argument;
  };
  std::vector<Range> ranges;
  ranges.reserve(by_address.size());
  for (const size_t i : by_address) {
    const Argument& a = arguments_[i];
    const bool is_input = a.kind == Argument::Kind::kInput;
    const void* data = is_input ? memory.inputs[a.index] : memory.outputs[a.result];
    const auto begin = reinterpret_cast<uintptr_t>(data);
    ranges.push_back({begin, begin + static_cast<uintptr_t>(a.type.num_bytes()), i});
  }
  sort_nearly_sorted(ranges);
  for (size_t k = 0; k < ranges.size(); ++k) by_address[k] = ranges[k].argument;
  std::erase_if(ranges, [](const Range& r) { return r.begin == r.end; });
  std::vector<bool> result(arguments_.size());
  uintptr_t last_end = 0;
  for (size_t k = 0; k < ranges.size(); ++k) {
    const Range& r = ranges[k];
    const bool overlaps_later = k + 1 < ranges.size() && ranges[k + 1].begin < r.end;
    result[r.argument] = r.begin < last_end || overlaps_later;
    last_end = std::max(last_end, r.end);
  }
  return result;
}

PJRT_Buffer* Callable::input(Call& call, size_t slot, const void* data) {
  const Argument& a = arguments_[reads_[slot].position];
  const bool is_empty = a.type.num_elements() == 0;
  if (!is_empty && !(zero_copy_ && is_aligned(data))) return nullptr;
  pjrt::Buffer buffer = client_.from_host(data, a.type, pjrt::HostSemantics::kImmutableZeroCopy);
  if (is_empty || lies_at(buffer, data)) return call.use.replace(slot, data, std::move(buffer));
  // A copy after all: it serves this call only, since the memory may be written to after it.
  call.own.push_back(std::move(buffer));
  count_copy(call, a, CopyReason::kDeviceMemory);
  return call.own.back().get();
}

PJRT_Buffer* Callable::copy_in(Call& call, const CallMemory& memory, size_t position,
                               CopyReason reason) {
  const Argument& a = arguments_[position];
  const bool is_input = a.kind == Argument::Kind::kInput;
  const void* data = is_input ? memory.inputs[a.index] : memory.outputs[a.result];
  PJRT_Buffer* buffer = copied(call, data, a.type);
  count_copy(call, a, reason);
  return buffer;
}

PJRT_Buffer* Callable::mutated(Call& call, const CallMemory& memory, size_t slot, bool overlaps) {
  const size_t position = mutated_[slot];
  const Argument& a = arguments_[position];
  void* data = memory.outputs[a.result];
  Written::Slot& kept = call.written->slots[slot];
  if (kept.buffer && (kept.data != data || overlaps)) kept.buffer.reset();
  if (kept.buffer) return kept.buffer->get();
  const bool in_place = !overlaps && zero_copy_ && is_aligned(data);
  if (in_place || a.type.num_elements() == 0) return written(call, data, a.type);
  return copy_in(call, memory, position, overlaps ? CopyReason::kOverlaps : unaligned_);
}

PJRT_Buffer* Callable::made(Call& call, const CallMemory& memory, size_t position) {
  const Argument& a = arguments_[position];
  switch (a.kind) {
    case Argument::Kind::kScalar:
      return copied(call, &memory.scalars[a.index], a.type);
    case Argument::Kind::kDraw:
      return copied(call, &memory.draws[2 * static_cast<size_t>(a.index)], a.type);
    case Argument::Kind::kOutputMemory:
      return written(call, memory.outputs[a.result], a.type);
    case Argument::Kind::kRelaid:
    case Argument::Kind::kInput:
    case Argument::Kind::kConstant:
    case Argument::Kind::kMutated:
      break;
  }
  fail(Code::kInternal, "argument ", position, " is not made at a call");
}

void Callable::take_relaid(Call& call, const CallMemory& memory) {
  if (relaid_.empty()) return;
  std::vector<std::string_view> contents;
  contents.reserve(relaid_.size());
  for (const size_t i : relaid_) {
    const Argument& a = arguments_[i];
    contents.push_back(a.relaid->content(memory.inputs[a.index]));
  }
  const std::vector<uint64_t> found = hashes(contents, workers_);
  for (size_t k = 0; k < relaid_.size(); ++k) {
    const Argument& a = arguments_[relaid_[k]];
    call.copies.push_back(a.relaid->get(memory.inputs[a.index], found[k]));
    call.buffers[relaid_[k]] = call.copies.back()->buffer();
  }
}

void Callable::gather(Call& call, const CallMemory& memory) {
  std::vector<size_t> to_copy;  // positions
  for (size_t slot = 0; slot < reads_.size(); ++slot) {
    const Read& read = reads_[slot];
    const void* data = memory.inputs[read.input];
    PJRT_Buffer* buffer = call.use.find(slot, data);
    if (!buffer) buffer = input(call, slot, data);
    if (!buffer) to_copy.push_back(read.position);
    call.buffers[read.position] = buffer;
  }
  call.use.unlock();
  for (const size_t i : to_copy) call.buffers[i] = copy_in(call, memory, i, unaligned_);
  take_relaid(call, memory);
  for (const size_t i : made_) call.buffers[i] = made(call, memory, i);
  call.written = take_written();
  if (!call.written) return;
  const std::vector<bool> overlaps = overlapping(memory, call.written->by_address);
  for (size_t slot = 0; slot < mutated_.size(); ++slot) {
    const size_t i = mutated_[slot];
    call.buffers[i] = mutated(call, memory, slot, overlaps[i]);
  }
}

void Callable::execute(Call& call, HostLock& lock, bool is_short) {
  const auto begin = Clock::now();
  const pjrt::Event event = executable_->execute(call.buffers, {}, call.outputs);
  wait_for(event, lock, is_short);
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin);
  last_run_us_.store(us.count(), std::memory_order_relaxed);
}

// Whether the result lies where it belongs, so that nothing had to be copied.
bool Callable::collect_result(const Call& call, const CallMemory& memory, size_t result) {
  const int64_t size = results_[result].num_bytes();
  void* destination = memory.outputs[result];
  if (size == 0) return false;
  if (donates_ && lies_at(call.outputs[result], destination)) return true;
  call.outputs[result].to_host(destination, static_cast<size_t>(size));
  stats_.add(&Stats::device_to_host_bytes, size);
  return false;
}

void Callable::collect(Call& call, const CallMemory& memory) {
  std::vector<bool> in_place(results_.size());
  for (size_t i = 0; i < results_.size(); ++i) in_place[i] = collect_result(call, memory, i);
  if (!call.written) return;
  for (size_t slot = 0; slot < mutated_.size(); ++slot) {
    const auto result = static_cast<size_t>(arguments_[mutated_[slot]].result);
    Written::Slot& left = call.written->slots[slot];
    left = {memory.outputs[result], std::nullopt};
    if (in_place[result]) left.buffer.emplace(std::move(call.outputs[result]));
  }
  leave_written(std::move(call.written));
}

}  // namespace torch_pjrt::run
