// Python's arithmetic on ints of 64 bits and on floats. What Python would raise, and an int beyond
// 64 bits, is kInvalid.
#pragma once

#include <cstdint>

namespace torch_pjrt::python_math {

int64_t add(int64_t a, int64_t b);
int64_t mul(int64_t a, int64_t b);
int64_t floor_div(int64_t a, int64_t b);        // a // b: rounds towards minus infinity
int64_t ceil_div(int64_t a, int64_t b);         // -(-a // b): rounds towards plus infinity
int64_t mod(int64_t a, int64_t b);              // a % b: the sign of the divisor
int64_t power(int64_t base, int64_t exponent);  // an exponent >= 0
int64_t shift_left(int64_t a, int64_t count);
int64_t shift_right(int64_t a, int64_t count);

double divide(double a, double b);
double floor_div(double a, double b);
double mod(double a, double b);
double power(double base, double exponent);
double square_root(double v);
double exponential(double v);
double logarithm(double v);
double logarithm_2(double v);
int64_t to_int(double v);  // of a whole number

}  // namespace torch_pjrt::python_math
