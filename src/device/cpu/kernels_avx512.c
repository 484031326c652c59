#define KERNELS tsr__kernels_avx512
#define KERNELS_NAME "avx512"
#include "device/cpu/kernels.c"
