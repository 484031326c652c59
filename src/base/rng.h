/* torch's CPU generator, bit for bit (its AVX2 path of torch 2.15). Source: torch.Generator, torch.randn, torch.rand.
 */
#ifndef TSR_BASE_RNG_H
#define TSR_BASE_RNG_H

#include <tessera/tensor.h>

typedef struct tsr__rng {
    uint32_t state[624];
    int next; /* index of the next word of state; 624: twist first */
    bool has_cached_normal;
    double cached_normal; /* the second of the last small pair */
} tsr__rng;

/* torch.Generator("cpu").manual_seed(seed) */
void tsr__rng_seed(tsr__rng *rng, uint64_t seed);
/* torch.randn(n, dtype): F32, BF16, F16 or F64 into dst (elements of that dtype). False for another dtype. */
bool tsr__rng_randn(tsr__rng *rng, tsr_dtype dtype, void *dst, int64_t n);
/* torch.rand(n, dtype): the same dtypes. */
bool tsr__rng_rand(tsr__rng *rng, tsr_dtype dtype, void *dst, int64_t n);
/* torch.randint(0, 2**32, (n,)) */
void tsr__rng_randint32(tsr__rng *rng, int64_t *dst, int64_t n);

#endif
