// Products of float32 tokens with the weights of a linear layer, for processors with AVX-512 VNNI.
//
// int8 and int4 weights:
//
//     y = x Wᵀ + bias    x ≈ largest / 127 · (high + low / 128), two vectors of bytes
//
// `low` is left out for tokens without outliers, whose numbers use the range of `high` well. Sums
// of bytes are exact integers, so a token has the same output alone and in a batch.
//
// The weights are unsigned bytes in blocks of 64 outputs, four inputs of one output side by side:
// one instruction multiplies 16 such fours with four inputs of a token. A block is read from its
// first byte to its last, for up to six vectors at a time.
//
// float32 weights are read as they are, four outputs at a time: faster than torch's products for
// few tokens.

#if !defined(__AVX512VNNI__) || !defined(__AVX512BW__)
#error "this processor has no AVX-512 VNNI"
#endif

#include <immintrin.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

// Arrays of registers stay in registers only if the loops over them are written out.
#define UNROLL _Pragma("GCC unroll 8")

namespace {

using torch::stable::parallel_for;
using torch::stable::Tensor;

constexpr int64_t BLOCK = 64;    // outputs that are computed together
constexpr int VECTORS = 4;       // registers of 16 numbers for them
constexpr int64_t TOKENS = 24;   // tokens whose sums a thread keeps
constexpr int64_t GRAIN = 8192;  // inputs that are worth a thread
constexpr int AHEAD = 2048;      // bytes between what is read and what is fetched from memory
constexpr float MOST_BYTE = 127, OUTLIER = 8;

// The numbers of a tensor, or a RuntimeError if it has others than expected.
template <class Number>
const Number* data(const Tensor& tensor, int64_t count) {
  STD_TORCH_CHECK(tensor.is_contiguous() && tensor.numel() == count, "expected ", count, " numbers");
  return tensor.const_data_ptr<Number>();
}

// The tokens as bytes: one or two vectors for each.
struct Bytes {
  int64_t inputs, groups;
  std::vector<int64_t> first;   // of each token's vectors; at the end, their number
  std::vector<float> scale;     // of each token
  std::vector<int8_t> values;   // (vectors, inputs)
  std::vector<int32_t> totals;  // (vectors, groups)

  const int8_t* vector(int64_t v) const { return values.data() + v * inputs; }
  bool has_low(int64_t token) const { return first[token + 1] - first[token] == 2; }
};

void measure(Bytes& q, const float* x, int64_t token) {
  float largest = 0, squares = 0;
#pragma omp simd reduction(max : largest) reduction(+ : squares)
  for (int64_t i = 0; i < q.inputs; i++) {
    largest = std::max(largest, std::fabs(x[i]));
    squares += x[i] * x[i];
  }
  const float least = largest / OUTLIER;
  const bool outliers = squares < least * least * q.inputs;
  q.first[token + 1] = outliers ? 2 : 1;
  q.scale[token] = std::isnan(squares) ? squares : largest / MOST_BYTE;  // the output is NaN, too
}

int8_t byte(float number) { return static_cast<int8_t>(static_cast<int32_t>(number)); }

void round(Bytes& q, const float* x, int64_t token) {
  int8_t* high = q.values.data() + q.first[token] * q.inputs;
  const float inverse = q.scale[token] > 0 ? 1 / q.scale[token] : 0;
#pragma omp simd
  for (int64_t i = 0; i < q.inputs; i++) high[i] = byte(std::nearbyint(x[i] * inverse));
  if (!q.has_low(token)) return;
  int8_t* low = high + q.inputs;
#pragma omp simd
  for (int64_t i = 0; i < q.inputs; i++)
    low[i] = byte(std::nearbyint((x[i] * inverse - high[i]) * 128));
}

Bytes rounded(const float* x, int64_t tokens, int64_t inputs, int64_t group) {
  Bytes q{inputs, inputs / group};
  q.first.resize(tokens + 1);
  q.scale.resize(tokens);
  const int64_t grain = std::max<int64_t>(1, GRAIN / inputs);
  parallel_for(0, tokens, grain, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; t++) measure(q, x + t * inputs, t);
  });
  for (int64_t t = 0; t < tokens; t++) q.first[t + 1] += q.first[t];
  q.values.resize(q.first[tokens] * inputs);
  q.totals.resize(q.first[tokens] * q.groups);
  parallel_for(0, tokens, grain, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; t++) round(q, x + t * inputs, t);
    for (int64_t g = q.first[begin] * q.groups; g < q.first[end] * q.groups; g++) {
      int32_t total = 0;
      for (int64_t i = g * group; i < (g + 1) * group; i++) total += q.values[i];
      q.totals[g] = total;
    }
  });
  return q;
}

__m512i four_inputs(const int8_t* x) {
  int32_t word;
  std::memcpy(&word, x, 4);
  return _mm512_set1_epi32(word);
}

// As assembly, since GCC 12 copies the sums of the intrinsics from register to register.
void add_products(__m512i& sum, __m512i weights, __m512i inputs) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(weights), "v"(inputs));
}

void add_products(__m512& sum, __m512 weights, __m512 inputs) {
  asm("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(weights), "v"(inputs));
}

__m512i load_and_prefetch(const uint8_t* from) {
  _mm_prefetch(reinterpret_cast<const char*>(from + AHEAD), _MM_HINT_T0);
  return _mm512_loadu_si512(from);
}

// Q + 128 for each input, then the scales of the 64 outputs.
struct Int8 {
  static constexpr int MOST_ROWS = 6;  // vectors that are multiplied together
  static int64_t group(int64_t inputs) { return inputs; }
  static int64_t bytes(int64_t inputs) { return BLOCK * (inputs + 4); }

  template <int ROWS>
  static void multiply(const Bytes& q, int64_t vector, const uint8_t* w, float* y) {
    const int8_t* x = q.vector(vector);
    __m512i sums[ROWS][VECTORS];
    UNROLL for (int r = 0; r < ROWS; r++)
      UNROLL for (int v = 0; v < VECTORS; v++)
        sums[r][v] = _mm512_set1_epi32(-128 * q.totals[vector + r]);
    for (int64_t i = 0; i < q.inputs; i += 4, w += 4 * BLOCK) {
      __m512i weights[VECTORS];
      UNROLL for (int v = 0; v < VECTORS; v++) weights[v] = load_and_prefetch(w + 64 * v);
      UNROLL for (int r = 0; r < ROWS; r++) {
        const __m512i inputs = four_inputs(x + r * q.inputs + i);
        UNROLL for (int v = 0; v < VECTORS; v++) add_products(sums[r][v], weights[v], inputs);
      }
    }
    UNROLL for (int v = 0; v < VECTORS; v++) {
      const __m512 scale = _mm512_loadu_ps(w + 64 * v);
      UNROLL for (int r = 0; r < ROWS; r++) {
        const __m512 sum = _mm512_cvtepi32_ps(sums[r][v]);
        _mm512_storeu_ps(y + r * BLOCK + 16 * v, _mm512_mul_ps(sum, scale));
      }
    }
  }
};

// For each group of 32 inputs: Q + 8 in half bytes, input i beside input i + 16; then the scales
// and the offsets of the 64 outputs in bfloat16.
struct Int4 {
  static constexpr int MOST_ROWS = 4;
  static constexpr int64_t GROUP = 32;
  static int64_t group(int64_t) { return GROUP; }
  static int64_t bytes(int64_t inputs) { return inputs / GROUP * BLOCK * (GROUP / 2 + 4); }

  static __m512 bfloat16(const uint8_t* from) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }

  template <int ROWS>
  static void multiply(const Bytes& q, int64_t vector, const uint8_t* w, float* y) {
    const __m512i low_half = _mm512_set1_epi8(15);
    __m512 results[ROWS][VECTORS] = {};
    for (int64_t g = 0; g < q.groups; g++, w += 4 * BLOCK) {
      const int8_t* x = q.vector(vector) + g * GROUP;
      const int32_t* totals = q.totals.data() + vector * q.groups + g;
      __m512i sums[ROWS][VECTORS];
      UNROLL for (int r = 0; r < ROWS; r++)
        UNROLL for (int v = 0; v < VECTORS; v++)
          sums[r][v] = _mm512_set1_epi32(-8 * totals[r * q.groups]);
      for (int i = 0; i < GROUP / 2; i += 4, w += 4 * BLOCK)
        UNROLL for (int v = 0; v < VECTORS; v++) {
          const __m512i both = load_and_prefetch(w + 64 * v);
          const __m512i first = _mm512_and_si512(both, low_half);
          const __m512i second = _mm512_and_si512(_mm512_srli_epi16(both, 4), low_half);
          UNROLL for (int r = 0; r < ROWS; r++) {
            const int8_t* inputs = x + r * q.inputs + i;
            add_products(sums[r][v], first, four_inputs(inputs));
            add_products(sums[r][v], second, four_inputs(inputs + GROUP / 2));
          }
        }
      UNROLL for (int v = 0; v < VECTORS; v++) {
        const __m512 scale = bfloat16(w + 32 * v), offset = bfloat16(w + 2 * BLOCK + 32 * v);
        UNROLL for (int r = 0; r < ROWS; r++) {
          add_products(results[r][v], offset, _mm512_set1_ps(totals[r * q.groups]));
          add_products(results[r][v], scale, _mm512_cvtepi32_ps(sums[r][v]));
        }
      }
    }
    UNROLL for (int r = 0; r < ROWS; r++)
      UNROLL for (int v = 0; v < VECTORS; v++)
        _mm512_storeu_ps(y + r * BLOCK + 16 * v, results[r][v]);
  }
};

template <class Weights, int ROWS = Weights::MOST_ROWS>
void multiply_all(const Bytes& q, int64_t vector, int64_t end, const uint8_t* w, float* y) {
  for (; vector + ROWS <= end; vector += ROWS, y += ROWS * BLOCK)
    Weights::template multiply<ROWS>(q, vector, w, y);
  if constexpr (ROWS > 1) multiply_all<Weights, ROWS - 1>(q, vector, end, w, y);
}

template <class Weights>
Tensor quantized_linear(Tensor x, Tensor packed, int64_t outputs, std::optional<Tensor> bias) {
  const int64_t tokens = x.size(0), inputs = x.size(1), group = Weights::group(inputs);
  STD_TORCH_CHECK(inputs > 0 && inputs % 4 == 0 && inputs % group == 0, inputs, " inputs");
  const int64_t blocks = (outputs + BLOCK - 1) / BLOCK, bytes = Weights::bytes(inputs);
  const uint8_t* weights = data<uint8_t>(packed, blocks * bytes);
  const float* offsets = bias ? data<float>(*bias, outputs) : nullptr;
  const Bytes q = rounded(data<float>(x, tokens * inputs), tokens, inputs, group);
  Tensor result = torch::stable::new_empty(x, {tokens, outputs});
  float* y = result.mutable_data_ptr<float>();
  parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
    alignas(64) float sums[2 * TOKENS * BLOCK];
    for (int64_t block = begin; block < end; block++) {
      const uint8_t* w = weights + block * bytes;
      const int64_t output = block * BLOCK, width = std::min(BLOCK, outputs - output);
      for (int64_t token = 0; token < tokens; token += TOKENS) {
        const int64_t last = std::min(tokens, token + TOKENS);
        multiply_all<Weights>(q, q.first[token], q.first[last], w, sums);
        for (int64_t t = token; t < last; t++) {
          const float* high = sums + (q.first[t] - q.first[token]) * BLOCK;
          const float* low = q.has_low(t) ? high + BLOCK : nullptr;
          float* row = y + t * outputs + output;
          for (int64_t o = 0; o < width; o++) {
            const float sum = low ? high[o] + low[o] / 128 : high[o];
            row[o] = sum * q.scale[t] + (offsets ? offsets[output + o] : 0);
          }
        }
      }
    }
  });
  return result;
}

template <int ROWS, int OUTPUTS>
void dot_products(const float* x, const float* w, int64_t inputs, float* y, int64_t stride) {
  __m512 sums[ROWS][OUTPUTS] = {};
  for (int64_t i = 0; i < inputs; i += 16) {
    const __mmask16 mask = inputs - i >= 16 ? 0xffff : (1 << (inputs - i)) - 1;
    __m512 weights[OUTPUTS];
    UNROLL for (int o = 0; o < OUTPUTS; o++) {
      const float* from = w + o * inputs + i;
      _mm_prefetch(reinterpret_cast<const char*>(from + OUTPUTS * inputs), _MM_HINT_T1);
      weights[o] = _mm512_maskz_loadu_ps(mask, from);
    }
    UNROLL for (int r = 0; r < ROWS; r++) {
      const __m512 input = _mm512_maskz_loadu_ps(mask, x + r * inputs + i);
      UNROLL for (int o = 0; o < OUTPUTS; o++) add_products(sums[r][o], weights[o], input);
    }
  }
  UNROLL for (int r = 0; r < ROWS; r++)
    UNROLL for (int o = 0; o < OUTPUTS; o++)
      y[r * stride + o] += _mm512_reduce_add_ps(sums[r][o]);
}

template <int OUTPUTS, int ROWS = 6>
void all_dot_products(
    const float* x, int64_t tokens, const float* w, int64_t inputs, float* y, int64_t stride) {
  for (; tokens >= ROWS; tokens -= ROWS, x += ROWS * inputs, y += ROWS * stride)
    dot_products<ROWS, OUTPUTS>(x, w, inputs, y, stride);
  if constexpr (ROWS > 1)
    all_dot_products<OUTPUTS, ROWS - 1>(x, tokens, w, inputs, y, stride);
}

Tensor float_linear(Tensor x, Tensor weight, std::optional<Tensor> bias) {
  const int64_t tokens = x.size(0), inputs = x.size(1), outputs = weight.size(0);
  const float* in = data<float>(x, tokens * inputs);
  const float* weights = data<float>(weight, outputs * inputs);
  const float* offsets = bias ? data<float>(*bias, outputs) : nullptr;
  Tensor result = torch::stable::new_empty(x, {tokens, outputs});
  float* y = result.mutable_data_ptr<float>();
  parallel_for(0, (outputs + BLOCK - 1) / BLOCK, 1, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * BLOCK, last = std::min(outputs, end * BLOCK);
    for (int64_t t = 0; t < tokens; t++)
      for (int64_t o = first; o < last; o++) y[t * outputs + o] = offsets ? offsets[o] : 0;
    const float* w = weights + first * inputs;
    int64_t o = first;
    for (; o + 4 <= last; o += 4, w += 4 * inputs)
      all_dot_products<4>(in, tokens, w, inputs, y + o, outputs);
    for (; o < last; o++, w += inputs) all_dot_products<1>(in, tokens, w, inputs, y + o, outputs);
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
