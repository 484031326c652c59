/* SHA-256 (FIPS 180-4), for comparison with digests in fixtures. */
#ifndef TESTS_SHA256_H
#define TESTS_SHA256_H

#include <stddef.h>

/* The digest of bytes [n] as 64 hexadecimal digits and a NUL. */
void test_sha256(const void *bytes, size_t n, char digest[65]);

#endif
