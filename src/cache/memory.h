// Values in memory, bounded by bytes: one made per key, however many threads ask.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/key.h"

namespace torch_pjrt::cache {

// What a value of a Memory derives from.
struct Cached {
  int64_t num_bytes = 0;                 // set before it is handed over
  std::atomic<int64_t> last_use = 0;     // by the Memory's clock
  std::atomic<bool> is_evicted = false;  // the Memory has it no more
};

// Any thread may use it. It outlives the work that it has started.
template <class V>
class Memory {
 public:
  using Value = std::shared_ptr<V>;
  using OnEvict = std::function<void(const std::vector<Value>&)>;

  struct Found {
    std::shared_future<Value> value;
    bool started;  // by this call; else it was there, or another call is at it
  };

  // Above `max_bytes` the values go whose last use is longest ago; the one used last stays. Their
  // users may hold them on. `on_evict` gets those that went, on the thread that added to them,
  // while no lock is held; it must not throw.
  explicit Memory(int64_t max_bytes = std::numeric_limits<int64_t>::max(), OnEvict on_evict = {})
      : max_bytes_(max_bytes), on_evict_(std::move(on_evict)) {}

  // The value of the key. If there is none, `make` is handed to `run` as a task that runs it once,
  // now or on another thread; until it has ended, all who ask wait for the same future. They all
  // get its exception, which isn't remembered: the next call tries again. If `run` itself throws,
  // nothing is remembered either.
  Found find_or_make(const Key& key, std::function<Value()> make,
                     const std::function<void(std::function<void()>)>& run) {
    auto promise = std::make_shared<std::promise<Value>>();
    const std::shared_future<Value> value = promise->get_future().share();
    {
      const std::lock_guard lock(mutex_);
      const auto [place, is_new] = values_.try_emplace(key.bytes(), value);
      if (!is_new) return {place->second, false};
    }
    const auto give_up = [this, promise, bytes = key.bytes()] {
      // First of all, so that whoever sees the error can try again.
      forget(bytes);
      promise->set_exception(std::current_exception());
    };
    try {
      run([this, make = std::move(make), promise, give_up, bytes = key.bytes()] {
        try {
          const Value made = make();
          account(bytes, made);
          evict();
          promise->set_value(made);
        } catch (...) {
          give_up();
        }
      });
    } catch (...) {
      give_up();
    }
    return {value, true};
  }

  // Null if there is none, or it is still being made.
  Value find_ready(const Key& key) const {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(key.bytes());
    const bool is_ready =
        found != values_.end() &&
        found->second.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    return is_ready ? found->second.get() : nullptr;
  }

  // Says that a value is in use now.
  void touch(V& value) {
    value.last_use.store(clock_.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
  }

  void set_max_bytes(int64_t max_bytes) {
    {
      const std::lock_guard lock(mutex_);
      max_bytes_ = max_bytes;
    }
    evict();
  }

  int64_t max_bytes() const {
    const std::lock_guard lock(mutex_);
    return max_bytes_;
  }

  // Number of values, with those in the making.
  size_t size() const {
    const std::lock_guard lock(mutex_);
    return values_.size();
  }
  // Of the values that are made.
  int64_t num_bytes() const {
    const std::lock_guard lock(mutex_);
    return num_bytes_;
  }

 private:
  void forget(const std::string& bytes) {
    const std::lock_guard lock(mutex_);
    values_.erase(bytes);
  }

  void account(const std::string& bytes, const Value& value) {
    touch(*value);
    const std::lock_guard lock(mutex_);
    made_.push_back({bytes, value});
    num_bytes_ += value->num_bytes;
  }

  void evict() {
    std::vector<Value> evicted;
    {
      const std::lock_guard lock(mutex_);
      while (num_bytes_ > max_bytes_ && made_.size() > 1) {
        const auto oldest = std::ranges::min_element(
            made_, {}, [](const Made& m) { return m.value->last_use.load(); });
        num_bytes_ -= oldest->value->num_bytes;
        oldest->value->is_evicted = true;
        values_.erase(oldest->key);
        evicted.push_back(std::move(oldest->value));
        made_.erase(oldest);
      }
    }
    if (!evicted.empty() && on_evict_) on_evict_(evicted);
  }

  struct Made {
    std::string key;
    Value value;
  };

  mutable std::mutex mutex_;
  int64_t max_bytes_;
  int64_t num_bytes_ = 0;
  std::unordered_map<std::string, std::shared_future<Value>> values_;  // also in the making
  std::vector<Made> made_;
  std::atomic<int64_t> clock_ = 0;
  const OnEvict on_evict_;
};

}  // namespace torch_pjrt::cache
