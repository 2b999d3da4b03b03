// Why one plan goes before another, in one sentence.
#pragma once

#include <string>

#include "search/question.h"

namespace ztplan {

/// "0.20 s less bubble" of two plans' steps, or "3.1 GiB less activations"
/// where memory is the objective: the term in which `best` gains most over
/// `other`. Empty when they are equal.
std::string advantage(const Plan& best, const Plan& other, Objective objective);

/// "#1 beats #2 by 1.6 %: 0.20 s less bubble".
std::string comparison(const Plan& best, const Plan& other,
                       Objective objective);

}  // namespace ztplan
