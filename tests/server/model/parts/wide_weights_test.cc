// Goal: with int4 weights what a recurrence adds up for long keeps 8 bits, and
// nothing large does without need. Method: the names of published checkpoints.

#include "server/model/parts/wide_weights.h"

#include "gtest/gtest.h"

namespace steadystate::wide_weights_test {
namespace {

constexpr size_t kMany = 2048;

TEST(WideWeightsTest, DecaysBetasAndStepsAreWideUnderAnyFamilysName) {
  for (const char* name :
       {"a_proj",         "b_proj",        "in_proj_a",
        "in_proj_b",      "in_proj_ba",    "gk_proj.0",
        "gk_proj.1",      "f_proj",        "f_proj.0",
        "f_proj.1",       "f_a_proj",      "f_b_proj",
        "dt_proj",        "x_proj",        "x_proj.0.linear",
        "x_proj.2",       "in_proj.dt",    "w_proj.linear.lora.0",
        "w_lora.lora.2",  "a_lora.lora.0", "igate_preact",
        "fgate_preact",   "decay_proj",    "decay_k_proj",
        "decay_k_proj.1", "decay_v_proj",  "decay_phase_proj"}) {
    EXPECT_TRUE(IsWide(name, kMany)) << name;
  }
}

TEST(WideWeightsTest, WhatModelsMostlyConsistOfIsNot) {
  for (const char* name :
       {"q_proj",    "k_proj",   "v_proj",        "g_proj",
        "o_proj",    "in_proj",  "in_proj_qkv",   "in_proj_qkvz",
        "in_proj_z", "out_proj", "gate_proj",     "up_proj",
        "down_proj", "g_proj.0", "g_lora.lora.0", "r_proj.linear",
        "key",       "value",    "linear_x",      "ogate_preact",
        "dt",        ""}) {
    EXPECT_FALSE(IsWide(name, kMany)) << name;
  }
}

TEST(WideWeightsTest, AFewRowsAreWideWhateverTheyAre) {
  EXPECT_TRUE(IsWide("q_proj", 1));
  EXPECT_TRUE(IsWide("q_proj", 16));
  EXPECT_FALSE(IsWide("q_proj", 17));
}

}  // namespace
}  // namespace steadystate::wide_weights_test
