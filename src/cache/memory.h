// Compiled programs in memory: one compile per key, however many threads ask.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "cache/key.h"

namespace torch_pjrt::cache {

// Any thread may use it. It outlives the work that it has started.
template <class V>
class Memory {
 public:
  using Value = std::shared_ptr<V>;

  struct Found {
    std::shared_future<Value> value;
    bool started;  // by this call; else it was there, or another call is at it
  };

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
      run([make = std::move(make), promise, give_up] {
        try {
          promise->set_value(make());
        } catch (...) {
          give_up();
        }
      });
    } catch (...) {
      give_up();
    }
    return {value, true};
  }

  // Number of values, with those in the making.
  size_t size() const {
    const std::lock_guard lock(mutex_);
    return values_.size();
  }

 private:
  void forget(const std::string& bytes) {
    const std::lock_guard lock(mutex_);
    values_.erase(bytes);
  }

  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_future<Value>> values_;
};

}  // namespace torch_pjrt::cache
