// Questions and random legal strategies for tests of the planner.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "search/enumerate.h"
#include "search/evaluate.h"
#include "search/request.h"
#include "support/any_engine.h"

namespace ztplan {

/// The question a user asks with --model, --cluster, --gpus, --seq and
/// --global-batch.
inline Question asked(const std::string& model, const std::string& cluster,
                      int gpus, int sequence, int global_batch) {
  Request request;
  request.model = model;
  request.cluster = cluster;
  request.gpus = gpus;
  request.sequence = sequence;
  request.global_batch = global_batch;
  return ask(request).question;
}

/// Schedules that split a backward.
inline std::vector<Schedule> split_schedules() {
  return {Schedule::zb_h1, Schedule::zb_h2, Schedule::zb_v,
          Schedule::dualpipe_v};
}

inline Setting setting_of(const Question& question) {
  return {question.model, question.cluster, question.workload};
}

/// `question`, allowing these schedules alone; under an engine that runs all
/// of them where none was named.
inline Question scheduled(Question question, std::vector<Schedule> schedules) {
  question.limits.schedule = std::move(schedules);
  if (question.engines.size() > 1) question.engines = {&any_engine()};
  return question;
}

struct Legal {
  Strategy strategy;
  const Engine* engine;
};

/// About `count` strategies drawn evenly from all legal ones of `question`.
inline std::vector<Legal> legal_sample(const Question& question,
                                       std::size_t count, unsigned seed) {
  std::vector<Legal> all;
  enumerate(question, [&](const Strategy& strategy) {
    if (const Engine* engine = engine_for(question, strategy))
      all.push_back({strategy, engine});
  });
  std::mt19937 dice(seed);
  std::shuffle(all.begin(), all.end(), dice);
  if (all.size() > count) all.resize(count);
  return all;
}

}  // namespace ztplan
