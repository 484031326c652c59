/* Data types and host tensors. */
#ifndef TESSERA_TENSOR_H
#define TESSERA_TENSOR_H

#include <tessera/status.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { TSR_MAX_DIMS = 8 };

/* X(name as safetensors spells it, bits an element) */
#define TSR_DTYPE_LIST(X)                                                                                              \
    X(F32, 32)                                                                                                         \
    X(BF16, 16)                                                                                                        \
    X(F16, 16)                                                                                                         \
    X(F64, 64)                                                                                                         \
    X(I64, 64)                                                                                                         \
    X(I32, 32)                                                                                                         \
    X(I16, 16)                                                                                                         \
    X(I8, 8)                                                                                                           \
    X(U64, 64)                                                                                                         \
    X(U32, 32)                                                                                                         \
    X(U16, 16)                                                                                                         \
    X(U8, 8)                                                                                                           \
    X(BOOL, 8)                                                                                                         \
    X(F8_E4M3, 8)                                                                                                      \
    X(F8_E5M2, 8)                                                                                                      \
    X(F8_E8M0, 8)                                                                                                      \
    X(F8_E4M3FNUZ, 8)                                                                                                  \
    X(F8_E5M2FNUZ, 8)                                                                                                  \
    X(F6_E2M3, 6)                                                                                                      \
    X(F6_E3M2, 6)                                                                                                      \
    X(F4, 4)                                                                                                           \
    X(C64, 64)

typedef enum tsr_dtype {
    TSR_DTYPE_NONE, /* "not given": the checkpoint's own, where a function takes a dtype */
#define TSR_DTYPE_ENUM(name, bits) TSR_##name,
    TSR_DTYPE_LIST(TSR_DTYPE_ENUM)
#undef TSR_DTYPE_ENUM
        TSR_DTYPE_COUNT
} tsr_dtype;

TSR_API const char *tsr_dtype_name(tsr_dtype dtype);     /* "BF16"; "?" for what is no dtype */
TSR_API unsigned tsr_dtype_bits(tsr_dtype dtype);        /* bits an element; 0 for what is no dtype */
TSR_API tsr_dtype tsr_dtype_from_name(const char *name); /* accepts "BF16", "bfloat16", "torch.bfloat16"; else NONE */

/* A dense row-major tensor in host memory. Who owns name and data is said by the function that gives or takes it. */
typedef struct tsr_tensor {
    const char *name;
    tsr_dtype dtype;
    int ndim;
    int64_t shape[TSR_MAX_DIMS];
    void *data;
} tsr_tensor;

/* The product of the sizes, and the bytes that so many elements take. Local. */
TSR_API int64_t tsr_tensor_elements(const tsr_tensor *tensor);
TSR_API size_t tsr_tensor_bytes(const tsr_tensor *tensor);

/* Converts n elements of any real or integer dtype to float32 (round to nearest even). Sub-byte and complex dtypes are
 * not converted: returns false and writes nothing. Local. */
TSR_API bool tsr_convert_to_f32(tsr_dtype from, const void *src, float *dst, size_t n);
/* The way back, to F32, BF16 or F16; rounds to nearest even. Other dtypes: false. Local. */
TSR_API bool tsr_convert_from_f32(tsr_dtype to, const float *src, void *dst, size_t n);

#ifdef __cplusplus
}
#endif
#endif
