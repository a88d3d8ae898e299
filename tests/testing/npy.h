#ifndef STEADYSTATE_TESTS_TESTING_NPY_H_
#define STEADYSTATE_TESTS_TESTING_NPY_H_

#include <cstddef>
#include <string>
#include <vector>

namespace steadystate {

// An array of float64 from a .npy file, row-major.
struct NpyArray {
  std::vector<size_t> shape;
  std::vector<double> values;
};

// Reads version 1 or 2 of the format, dtype '<f8', C order; ends the program
// for anything else: golden files are our own.
NpyArray ReadNpy(const std::string& path);

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_TESTING_NPY_H_
