// Products of float32 tokens with the weights of a linear layer, in the instructions of simd.h.
//
// int8 and int4 weights:
//
//     y = x Wᵀ + bias    x ≈ largest / 127 · (high + low / 128), two vectors of bytes
//
// `low` is left out for tokens without outliers, whose numbers use the range of `high` well. Sums
// of bytes are exact integers, so a token has the same output alone and in a batch.
//
// The weights are bytes in blocks of 4 · LANES outputs, four inputs of one output side by side: one
// instruction multiplies LANES such fours with four inputs of a token. A block is read from its
// first byte to its last, for up to six vectors at a time.
//
// float32 weights are read as they are: in dot products of rows for few tokens, for more with the
// tokens side by side in registers.

#include "simd.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

// Arrays of registers stay in registers only if the loops over them are written out.
#define UNROLL _Pragma("GCC unroll 8")

namespace {

using torch::stable::parallel_for;
using torch::stable::Tensor;

constexpr int VECTORS = 4;                  // registers of weights that are read together
constexpr int64_t BLOCK = VECTORS * LANES;  // their outputs
constexpr int64_t GRAIN = 8192;             // inputs that are worth a thread
constexpr int64_t STRIP = 12;               // outputs that a thread computes together in float32
constexpr int64_t MOST_INPUTS = 1 << 17;    // sums of so many products fit into 32 bits
constexpr float MOST_BYTE = 127, OUTLIER = 8;

// The numbers of a tensor, or a RuntimeError if it has others than expected.
template <class Number>
const Number* data(const Tensor& tensor, int64_t count) {
  const bool expected = tensor.is_contiguous() && tensor.numel() == count;
  STD_TORCH_CHECK(expected, "expected ", count, " numbers");
  return tensor.const_data_ptr<Number>();
}

// The tokens as bytes: one or two vectors for each.
struct Bytes {
  int64_t inputs, groups;
  std::vector<int64_t> first;   // of each token's vectors; at the end, their number
  std::vector<float> scale;     // of each token
  std::vector<int64_t> token;   // of each vector
  std::vector<int8_t> values;   // (vectors, inputs)
  std::vector<int32_t> totals;  // (vectors, groups)

  int64_t vectors() const { return first.back(); }
  const int8_t* vector(int64_t v) const { return values.data() + v * inputs; }
  bool has_low(int64_t t) const { return first[t + 1] - first[t] == 2; }
  bool is_low(int64_t v) const { return v != first[token[v]]; }
};

void measure(Bytes& q, const float* x, int64_t token) {
  Floats most = {}, squared = {};
  const auto add = [&](Floats numbers) {
    most = maximum(most, absolute(numbers));
    add_products(squared, numbers, numbers);
  };
  int64_t i = 0;
  for (; i + LANES <= q.inputs; i += LANES) add(load(x + i));
  if (i < q.inputs) add(load_first(x + i, q.inputs - i));
  const float largest = maximum(most), squares = sum(squared);
  const float least = largest / OUTLIER;
  const bool outliers = squares < least * least * q.inputs;
  q.first[token + 1] = outliers ? 2 : 1;
  q.scale[token] = std::isnan(squares) ? squares : largest / MOST_BYTE;  // the output is NaN, too
}

void round(Bytes& q, const float* x, int64_t token) {
  int8_t* high = q.values.data() + q.first[token] * q.inputs;
  const Floats inverse = all(q.scale[token] > 0 ? 1 / q.scale[token] : 0);
  const bool has_low = q.has_low(token);
  for (int64_t i = 0; i < q.inputs; i += LANES) {
    const int64_t count = std::min<int64_t>(LANES, q.inputs - i);
    const Floats scaled = product(load_first(x + i, count), inverse);
    const Ints whole = nearest(scaled);
    store_bytes(high + i, whole, count);
    if (!has_low) continue;
    const Floats rest = product(difference(scaled, as_floats(whole)), all(128.0f));
    store_bytes(high + q.inputs + i, nearest(rest), count);
  }
}

template <class Weights>
Bytes as_bytes(const float* x, int64_t tokens, int64_t inputs) {
  const int64_t group = Weights::group(inputs);
  Bytes q{inputs, inputs / group};
  q.first.resize(tokens + 1);
  q.scale.resize(tokens);
  const int64_t grain = std::max<int64_t>(1, GRAIN / inputs);
  parallel_for(0, tokens, grain, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; t++) measure(q, x + t * inputs, t);
  });
  for (int64_t t = 0; t < tokens; t++) {
    q.token.insert(q.token.end(), q.first[t + 1], t);
    q.first[t + 1] += q.first[t];
  }
  q.values.resize(q.vectors() * inputs);
  q.totals.resize(q.vectors() * q.groups);
  parallel_for(0, tokens, grain, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; t++) round(q, x + t * inputs, t);
    if (Weights::ADDED == 0) return;
    for (int64_t g = q.first[begin] * q.groups; g < q.first[end] * q.groups; g++) {
      int32_t total = 0;
      for (int64_t i = g * group; i < (g + 1) * group; i++) total += q.values[i];
      q.totals[g] = -Weights::ADDED * total;
    }
  });
  return q;
}

// Where the outputs of a block of weights go.
struct Outputs {
  float* y;               // those of the first token
  const float* bias;      // of the block
  int64_t stride, width;  // from token to token; of the block

  // The sums of `high` are added to the bias, those of `low` to the outputs of `high`.
  void put(const Bytes& q, int64_t vector, const Floats (&sums)[VECTORS]) const {
    const int64_t token = q.token[vector];
    const bool low = q.is_low(vector);
    const Floats scale = all(low ? q.scale[token] / 128 : q.scale[token]);
    float* row = y + token * stride;
    const float* before = low ? row : bias;
    if (width == BLOCK) return add(before, scale, sums, row);
    float part[BLOCK] = {};
    std::copy_n(before, width, part);
    add(part, scale, sums, part);
    std::copy_n(part, width, row);
  }

 private:
  static void add(const float* before, Floats scale, const Floats (&sums)[VECTORS], float* after) {
    UNROLL for (int v = 0; v < VECTORS; v++) {
      Floats result = load(before + LANES * v);
      add_products(result, sums[v], scale);
      store(after + LANES * v, result);
    }
  }
};

// Q + ADDED for each input, then the scales of the block's outputs.
struct Int8 {
  static constexpr int MOST_ROWS = 6;  // vectors that are multiplied together
  static constexpr int ADDED = TO_INT8;
  static int64_t group(int64_t inputs) { return inputs; }
  static int64_t bytes(int64_t inputs) { return BLOCK * (inputs + 4); }

  template <int ROWS>
  static void multiply(const Bytes& q, int64_t vector, const uint8_t* w, const Outputs& y) {
    const int8_t* x = q.vector(vector);
    Ints sums[ROWS][VECTORS];
    UNROLL for (int r = 0; r < ROWS; r++)
      UNROLL for (int v = 0; v < VECTORS; v++) sums[r][v] = all(ADDED ? q.totals[vector + r] : 0);
    for (int64_t i = 0; i < q.inputs; i += 4, w += 4 * BLOCK) {
      Ints weights[VECTORS];
      UNROLL for (int v = 0; v < VECTORS; v++) weights[v] = load_weights(w + 4 * LANES * v);
      UNROLL for (int r = 0; r < ROWS; r++) {
        const FourBytes inputs = four_bytes(x + r * q.inputs + i);
        UNROLL for (int v = 0; v < VECTORS; v++) add_products(sums[r][v], weights[v], inputs);
      }
    }
    const float* scale = reinterpret_cast<const float*>(w);
    UNROLL for (int r = 0; r < ROWS; r++) {
      Floats results[VECTORS];
      UNROLL for (int v = 0; v < VECTORS; v++)
        results[v] = product(as_floats(sums[r][v]), load(scale + LANES * v));
      y.put(q, vector + r, results);
    }
  }
};

// For each group of 32 inputs: Q + 8 in half bytes, input i beside input i + 16; then the scales
// and the offsets of the block's outputs in bfloat16.
struct Int4 {
  static constexpr int MOST_ROWS = INT4_ROWS;
  static constexpr int ADDED = 8;
  static constexpr int64_t GROUP = 32;
  static int64_t group(int64_t) { return GROUP; }
  static int64_t bytes(int64_t inputs) { return inputs / GROUP * BLOCK * (GROUP / 2 + 4); }

  template <int ROWS>
  static void multiply(const Bytes& q, int64_t vector, const uint8_t* w, const Outputs& y) {
    Floats results[ROWS][VECTORS] = {};
    for (int64_t g = 0; g < q.groups; g++, w += 4 * BLOCK) {
      const int8_t* x = q.vector(vector) + g * GROUP;
      const int32_t* totals = q.totals.data() + vector * q.groups + g;
      Ints sums[ROWS][VECTORS];
      UNROLL for (int r = 0; r < ROWS; r++)
        UNROLL for (int v = 0; v < VECTORS; v++) sums[r][v] = all(totals[r * q.groups]);
      for (int i = 0; i < GROUP / 2; i += 4, w += 4 * BLOCK)
        UNROLL for (int v = 0; v < VECTORS; v++) {
          const Ints both = load_weights(w + 4 * LANES * v);
          const Ints first = low_halves(both);
          const Ints second = high_halves(both);
          UNROLL for (int r = 0; r < ROWS; r++) {
            const int8_t* inputs = x + r * q.inputs + i;
            add_products(sums[r][v], first, four_bytes(inputs));
            add_products(sums[r][v], second, four_bytes(inputs + GROUP / 2));
          }
        }
      UNROLL for (int v = 0; v < VECTORS; v++) {
        const uint8_t* numbers = w + 2 * LANES * v;
        const Floats scale = load_bfloat16(numbers), offset = load_bfloat16(numbers + 2 * BLOCK);
        UNROLL for (int r = 0; r < ROWS; r++) {
          add_products(results[r][v], offset, all(-1.0f / ADDED * totals[r * q.groups]));
          add_products(results[r][v], scale, as_floats(sums[r][v]));
        }
      }
    }
    UNROLL for (int r = 0; r < ROWS; r++) y.put(q, vector + r, results[r]);
  }
};

template <class Weights, int ROWS = Weights::MOST_ROWS>
void multiply_all(const Bytes& q, int64_t vector, const uint8_t* w, const Outputs& y) {
  for (; vector + ROWS <= q.vectors(); vector += ROWS)
    Weights::template multiply<ROWS>(q, vector, w, y);
  if constexpr (ROWS > 1) multiply_all<Weights, ROWS - 1>(q, vector, w, y);
}

template <class Weights>
Tensor quantized_linear(Tensor x, Tensor packed, int64_t outputs, std::optional<Tensor> bias) {
  const int64_t tokens = x.size(0), inputs = x.size(1);
  const bool expected = inputs > 0 && inputs <= MOST_INPUTS && inputs % 4 == 0;
  STD_TORCH_CHECK(expected && inputs % Weights::group(inputs) == 0, inputs, " inputs");
  const int64_t blocks = (outputs + BLOCK - 1) / BLOCK, bytes = Weights::bytes(inputs);
  const uint8_t* weights = data<uint8_t>(packed, blocks * bytes);
  const float* offsets = bias ? data<float>(*bias, outputs) : nullptr;
  const Bytes q = as_bytes<Weights>(data<float>(x, tokens * inputs), tokens, inputs);
  Tensor result = torch::stable::new_empty(x, {tokens, outputs});
  float* y = result.mutable_data_ptr<float>();
  parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
    const float zeros[BLOCK] = {};
    for (int64_t block = begin; block < end; block++) {
      const int64_t output = block * BLOCK, width = std::min(BLOCK, outputs - output);
      const float* added = offsets ? offsets + output : zeros;
      multiply_all<Weights>(q, 0, weights + block * bytes, {y + output, added, outputs, width});
    }
  });
  return result;
}

template <int ROWS, int OUTPUTS>
void dot_products(const float* x, const float* w, int64_t inputs, float* y, int64_t stride) {
  Floats sums[ROWS][OUTPUTS] = {};
  const auto add = [&](int64_t i, auto load) {
    Floats weights[OUTPUTS];
    UNROLL for (int o = 0; o < OUTPUTS; o++) weights[o] = load(w + o * inputs + i);
    UNROLL for (int r = 0; r < ROWS; r++) {
      const Floats input = load(x + r * inputs + i);
      UNROLL for (int o = 0; o < OUTPUTS; o++) add_products(sums[r][o], weights[o], input);
    }
  };
  int64_t i = 0;
  for (; i + LINE <= inputs; i += LINE) {
    UNROLL for (int o = 0; o < OUTPUTS; o++) prefetch(w + (OUTPUTS + o) * inputs + i);
    UNROLL for (int j = 0; j < LINE; j += LANES) add(i + j, load);
  }
  for (; i + LANES <= inputs; i += LANES) add(i, load);
  if (i < inputs) add(i, [=](const float* from) { return load_first(from, inputs - i); });
  UNROLL for (int r = 0; r < ROWS; r++)
    UNROLL for (int o = 0; o < OUTPUTS; o++) y[r * stride + o] += sum(sums[r][o]);
}

template <int OUTPUTS, int ROWS = 6>
void all_dot_products(
    const float* x, int64_t tokens, const float* w, int64_t inputs, float* y, int64_t stride) {
  for (; tokens >= ROWS; tokens -= ROWS, x += ROWS * inputs, y += ROWS * stride)
    dot_products<ROWS, OUTPUTS>(x, w, inputs, y, stride);
  if constexpr (ROWS > 1) all_dot_products<OUTPUTS, ROWS - 1>(x, tokens, w, inputs, y, stride);
}

// Tokens whose numbers lie side by side: a register has one input of LANES tokens.
struct Panel {
  int64_t first, tokens, registers;
  std::vector<float> values;  // (inputs, registers · LANES)

  int64_t width() const { return registers * LANES; }

  void fill(const float* x, int64_t inputs, int64_t begin, int64_t end) {
    for (int64_t t = 0; t < tokens; t += LANES) {
      const int64_t count = std::min<int64_t>(LANES, tokens - t);
      const float* from = x + (first + t) * inputs;
      float* to = values.data() + t;
      int64_t i = begin;
      if (count == LANES)
        for (; i + LANES <= end; i += LANES) transpose(from + i, inputs, to + i * width(), width());
      for (; i < end; i++)
        for (int64_t l = 0; l < count; l++) to[i * width() + l] = from[l * inputs + i];
    }
  }
};

std::vector<Panel> panels(const float* x, int64_t tokens, int64_t inputs) {
  std::vector<Panel> every;
  for (int64_t first = 0; first < tokens; first += BLOCK) {
    const int64_t count = std::min(BLOCK, tokens - first), registers = (count + LANES - 1) / LANES;
    every.push_back({first, count, registers, std::vector<float>(inputs * registers * LANES)});
  }
  const int64_t grain = std::max<int64_t>(LANES, GRAIN / tokens);
  parallel_for(0, inputs, grain, [&](int64_t begin, int64_t end) {
    for (Panel& panel : every) panel.fill(x, inputs, begin, end);
  });
  return every;
}

// The products of a panel with `count` rows of weights, ROWS at a time.
template <int REGISTERS, int ROWS = 6>
void multiply_panel(
    const Panel& panel, const float* w, int64_t inputs, int64_t count, const float* bias, float* y,
    int64_t stride) {
  for (; count >= ROWS; count -= ROWS, w += ROWS * inputs, bias += ROWS, y += ROWS) {
    const float* x = panel.values.data();
    Floats sums[ROWS][REGISTERS] = {};
    for (int64_t i = 0; i < inputs; i++, x += REGISTERS * LANES) {
      if (i % LINE == 0)
        UNROLL for (int r = 0; r < ROWS; r++) prefetch(w + (ROWS + r) * inputs + i);
      Floats numbers[REGISTERS];
      UNROLL for (int v = 0; v < REGISTERS; v++) numbers[v] = load(x + LANES * v);
      UNROLL for (int r = 0; r < ROWS; r++) {
        const OneNumber weight = one_number(w + r * inputs + i);
        UNROLL for (int v = 0; v < REGISTERS; v++) add_products(sums[r][v], numbers[v], weight);
      }
    }
    float tile[ROWS][REGISTERS * LANES];
    UNROLL for (int r = 0; r < ROWS; r++)
      UNROLL for (int v = 0; v < REGISTERS; v++) store(tile[r] + LANES * v, sums[r][v]);
    for (int64_t t = 0; t < panel.tokens; t++) {
      float* outputs = y + (panel.first + t) * stride;
      UNROLL for (int r = 0; r < ROWS; r++) outputs[r] = bias[r] + tile[r][t];
    }
  }
  if constexpr (ROWS > 1)
    multiply_panel<REGISTERS, ROWS - 1>(panel, w, inputs, count, bias, y, stride);
}

constexpr decltype(&multiply_panel<1>) MULTIPLY_PANEL[] = {
    multiply_panel<1>, multiply_panel<2>, multiply_panel<3>, multiply_panel<4>};

Tensor float_linear(Tensor x, Tensor weight, std::optional<Tensor> bias) {
  const int64_t tokens = x.size(0), inputs = x.size(1), outputs = weight.size(0);
  const float* in = data<float>(x, tokens * inputs);
  const float* weights = data<float>(weight, outputs * inputs);
  const float* offsets = bias ? data<float>(*bias, outputs) : nullptr;
  Tensor result = torch::stable::new_empty(x, {tokens, outputs});
  float* y = result.mutable_data_ptr<float>();
  std::vector<Panel> every;
  if (tokens > FEW_TOKENS) every = panels(in, tokens, inputs);
  parallel_for(0, (outputs + STRIP - 1) / STRIP, 1, [&](int64_t begin, int64_t end) {
    float added[STRIP] = {};
    for (int64_t first = begin * STRIP; first < end * STRIP; first += STRIP) {
      const int64_t count = std::min(STRIP, outputs - first);
      const float* w = weights + first * inputs;
      if (offsets) std::copy_n(offsets + first, count, added);
      for (const Panel& panel : every)
        MULTIPLY_PANEL[panel.registers - 1](panel, w, inputs, count, added, y + first, outputs);
      if (tokens > FEW_TOKENS) continue;
      for (int64_t t = 0; t < tokens; t++) std::copy_n(added, count, y + t * outputs + first);
      int64_t o = 0;
      for (; o + 4 <= count; o += 4)
        all_dot_products<4>(in, tokens, w + o * inputs, inputs, y + first + o, outputs);
      for (; o < count; o++)
        all_dot_products<1>(in, tokens, w + o * inputs, inputs, y + first + o, outputs);
    }
  });
  return result;
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(glassformer, library) {
  library.def("int8_linear(Tensor x, Tensor packed, int outputs, Tensor? bias) -> Tensor");
  library.def("int4_linear(Tensor x, Tensor packed, int outputs, Tensor? bias) -> Tensor");
  library.def("float_linear(Tensor x, Tensor weight, Tensor? bias) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(glassformer, CPU, library) {
  library.impl("int8_linear", TORCH_BOX(&quantized_linear<Int8>));
  library.impl("int4_linear", TORCH_BOX(&quantized_linear<Int4>));
  library.impl("float_linear", TORCH_BOX(&float_linear));
}
