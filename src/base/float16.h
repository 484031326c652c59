/* One-element conversions between float32 and the short floating formats. */
#ifndef TSR_BASE_FLOAT16_H
#define TSR_BASE_FLOAT16_H

#include <stdint.h>
#include <string.h>

static inline float tsr__f32_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t tsr__f32_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float tsr__bf16_to_f32(uint16_t half) { return tsr__f32_from_bits((uint32_t)half << 16); }

/* Round to nearest even; a NaN stays a NaN. */
static inline uint16_t tsr__f32_to_bf16(float value) {
    uint32_t bits = tsr__f32_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((bits >> 16) | 0x40u);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float tsr__f16_to_f32(uint16_t half);
uint16_t tsr__f32_to_f16(float value);

#endif
