// Whether all ranks that hold an element of a weight hold the same bits of it:
// replicas of data, whole parameters on tensor ranks, copies of a tied table.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "calibrate/kernels/array.h"
#include "exec/units.h"

namespace ztplan {

class Replicas {
 public:
  /// Adds what a rank holds of a flat buffer. `shard` is its part number
  /// `number`; with `alone` it holds no more than that, else all of the buffer
  /// around it.
  void hold(const FlatState& flat, const Array& shard, int number, bool alone);

  /// Names of parameters of which some element differs.
  std::vector<std::string> differing() const;
  /// Elements that were held again after they were first.
  std::int64_t compared() const { return compared_; }

 private:
  struct Held {
    std::vector<std::uint32_t> bits;
    std::vector<char> known;
    bool differs = false;
  };
  void put(Held& held, std::int64_t at, std::uint32_t bits);

  std::map<std::string, Held> held_;
  std::int64_t compared_ = 0;
};

}  // namespace ztplan
