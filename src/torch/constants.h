// Small values that depend on nothing, such as the 1 with which a backward starts: computed once.
#pragma once

#include "torch/pending.h"

namespace torch_pjrt::lazy {

// Makes a pending value data if it is one that was kept. mutex() is held.
void recall(const Value& value);

// What recall() may find later: called before the value is run, which makes it data. mutex() is
// held.
class Constants {
 public:
  void note(const Value& value);
  // Those noted are data by now.
  void keep() const;

 private:
  struct Noted {
    std::string key;
    Value value;
  };
  std::vector<Noted> noted_;
};

}  // namespace torch_pjrt::lazy
