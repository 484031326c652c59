#include <tessera/tensor.h>

#include "base/engine.h"
#include "base/float16.h"

#include <math.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *name;
    unsigned bits;
} dtypes[TSR_DTYPE_COUNT] = {{"?", 0},
#define ROW(name, bits) {#name, bits},
                             TSR_DTYPE_LIST(ROW)
#undef ROW
};

/* torch's spellings; config.json and --dtype use them. */
static const struct {
    const char *name;
    tsr_dtype dtype;
} torch_names[] = {
    {"float32", TSR_F32}, {"bfloat16", TSR_BF16}, {"float16", TSR_F16}, {"float64", TSR_F64}, {"int64", TSR_I64},
};

static bool known(tsr_dtype dtype) { return dtype > TSR_DTYPE_NONE && dtype < TSR_DTYPE_COUNT; }

const char *tsr_dtype_name(tsr_dtype dtype) { return known(dtype) ? dtypes[dtype].name : "?"; }
unsigned tsr_dtype_bits(tsr_dtype dtype) { return known(dtype) ? dtypes[dtype].bits : 0; }

tsr_dtype tsr_dtype_from_name(const char *name) {
    if (strncmp(name, "torch.", 6) == 0) name += 6;
    for (int i = 1; i < TSR_DTYPE_COUNT; i++)
        if (strcmp(name, dtypes[i].name) == 0) return (tsr_dtype)i;
    for (size_t i = 0; i < TSR__COUNT(torch_names); i++)
        if (strcmp(name, torch_names[i].name) == 0) return torch_names[i].dtype;
    return TSR_DTYPE_NONE;
}

int64_t tsr_tensor_elements(const tsr_tensor *tensor) {
    int64_t n = 1;
    for (int i = 0; i < tensor->ndim; i++) n *= tensor->shape[i];
    return n;
}

size_t tsr_tensor_bytes(const tsr_tensor *tensor) {
    return (size_t)tsr_tensor_elements(tensor) * tsr_dtype_bits(tensor->dtype) / 8;
}

/* A small float of `exponent` and `mantissa` bits with the given bias, its specials left to the caller. */
static float small_float(uint32_t bits, int exponent, int mantissa, int bias) {
    uint32_t sign = bits >> (exponent + mantissa);
    uint32_t e = (bits >> mantissa) & ((1u << exponent) - 1), m = bits & ((1u << mantissa) - 1);
    float magnitude =
        e ? ldexpf((float)(m + (1u << mantissa)), (int)e - bias - mantissa) : ldexpf((float)m, 1 - bias - mantissa);
    return sign ? -magnitude : magnitude;
}

float tsr__f16_to_f32(uint16_t half) {
    if ((half & 0x7c00u) == 0x7c00u)
        return tsr__f32_from_bits(((uint32_t)(half & 0x8000u) << 16) | 0x7f800000u | ((uint32_t)(half & 0x3ffu) << 13));
    return small_float(half, 5, 10, 15);
}

uint16_t tsr__f32_to_f16(float value) {
    uint32_t bits = tsr__f32_bits(value), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and above round to infinity */
    if (magnitude < 0x38800000u)                                     /* below 2^-14: a multiple of 2^-24 */
        return (uint16_t)(sign | (uint32_t)nearbyintf(ldexpf(fabsf(value), 24)));
    magnitude += 0xfffu + ((magnitude >> 13) & 1u);
    return (uint16_t)(sign | ((magnitude - 0x38000000u) >> 13));
}

static float e4m3(uint8_t b) { return (b & 0x7f) == 0x7f ? NAN : small_float(b, 4, 3, 7); }
static float e5m2(uint8_t b) { return tsr__f16_to_f32((uint16_t)(b << 8)); }
static float e8m0(uint8_t b) { return b == 0xff ? NAN : ldexpf(1.0f, b - 127); }
static float e4m3fnuz(uint8_t b) { return b == 0x80 ? NAN : small_float(b, 4, 3, 8); }
static float e5m2fnuz(uint8_t b) { return b == 0x80 ? NAN : small_float(b, 5, 2, 16); }

#define CONVERT(dtype, type, expression)                                                                               \
    case TSR_##dtype:                                                                                                  \
        for (size_t i = 0; i < n; i++) {                                                                               \
            type v;                                                                                                    \
            memcpy(&v, (const char *)src + i * sizeof v, sizeof v);                                                    \
            dst[i] = expression;                                                                                       \
        }                                                                                                              \
        return true;

bool tsr_convert_to_f32(tsr_dtype from, const void *src, float *dst, size_t n) {
    switch (from) {
        CONVERT(F32, float, v)
        CONVERT(BF16, uint16_t, tsr__bf16_to_f32(v))
        CONVERT(F16, uint16_t, tsr__f16_to_f32(v))
        CONVERT(F64, double, (float)v)
        CONVERT(I64, int64_t, (float)v)
        CONVERT(I32, int32_t, (float)v)
        CONVERT(I16, int16_t, (float)v)
        CONVERT(I8, int8_t, (float)v)
        CONVERT(U64, uint64_t, (float)v)
        CONVERT(U32, uint32_t, (float)v)
        CONVERT(U16, uint16_t, (float)v)
        CONVERT(U8, uint8_t, (float)v)
        CONVERT(BOOL, uint8_t, v ? 1.0f : 0.0f)
        CONVERT(F8_E4M3, uint8_t, e4m3(v))
        CONVERT(F8_E5M2, uint8_t, e5m2(v))
        CONVERT(F8_E8M0, uint8_t, e8m0(v))
        CONVERT(F8_E4M3FNUZ, uint8_t, e4m3fnuz(v))
        CONVERT(F8_E5M2FNUZ, uint8_t, e5m2fnuz(v))
    default:
        return false;
    }
}

bool tsr_convert_from_f32(tsr_dtype to, const float *src, void *dst, size_t n) {
    uint16_t *half = dst;
    switch (to) {
    case TSR_F32:
        memmove(dst, src, n * sizeof *src);
        return true;
    case TSR_BF16:
        for (size_t i = 0; i < n; i++) half[i] = tsr__f32_to_bf16(src[i]);
        return true;
    case TSR_F16:
        for (size_t i = 0; i < n; i++) half[i] = tsr__f32_to_f16(src[i]);
        return true;
    default:
        return false;
    }
}
