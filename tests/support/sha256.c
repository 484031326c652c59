#include "sha256.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { ROUNDS = 64, WORDS = 8, BLOCK = 64 };

typedef struct sha256 {
    uint32_t constants[ROUNDS]; /* the first bits of the fractions of the first primes' cube roots */
    uint32_t state[WORDS];      /* at first those of their square roots */
} sha256;

static uint32_t fraction(long double root) { return (uint32_t)((root - floorl(root)) * 0x1p32L); }

static int is_prime(int n) {
    for (int d = 2; d * d <= n; d++)
        if (n % d == 0) return 0;
    return 1;
}

static void begin(sha256 *h) {
    for (int n = 2, i = 0; i < ROUNDS; n++) {
        if (!is_prime(n)) continue;
        if (i < WORDS) h->state[i] = fraction(sqrtl(n));
        h->constants[i++] = fraction(cbrtl(n));
    }
}

static uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void add_block(sha256 *h, const unsigned char *block) {
    uint32_t w[ROUNDS], v[WORDS];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < ROUNDS; i++)
        w[i] = w[i - 16] + (rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 7] +
               (rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(v, h->state, sizeof v);
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]), majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        uint32_t first =
            v[7] + (rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25)) + choice + h->constants[i] + w[i];
        uint32_t second = (rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22)) + majority;
        memmove(v + 1, v, (WORDS - 1) * sizeof *v);
        v[4] += first;
        v[0] = first + second;
    }
    for (int i = 0; i < WORDS; i++) h->state[i] += v[i];
}

void test_sha256(const void *bytes, size_t n, char digest[65]) {
    sha256 h;
    const unsigned char *at = bytes;
    size_t rest = n % BLOCK;
    unsigned char end[2 * BLOCK] = {0};
    begin(&h);
    for (size_t i = 0; i + BLOCK <= n; i += BLOCK) add_block(&h, at + i);
    if (rest) memcpy(end, at + n - rest, rest);
    end[rest] = 0x80;
    size_t blocks = rest + 9 <= BLOCK ? 1 : 2;
    for (size_t i = 0; i < 8; i++) end[blocks * BLOCK - 1 - i] = (unsigned char)((uint64_t)n * 8 >> (8 * i));
    for (size_t i = 0; i < blocks; i++) add_block(&h, end + i * BLOCK);
    for (int i = 0; i < WORDS; i++) snprintf(digest + 8 * i, 9, "%08x", h.state[i]);
}
