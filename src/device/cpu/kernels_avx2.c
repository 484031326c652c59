#define KERNELS tsr__kernels_avx2
#define KERNELS_NAME "avx2"
#include "device/cpu/kernels.c"
