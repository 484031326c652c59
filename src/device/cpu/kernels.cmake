# The inner loops, once for each instruction set. Contraction to fused multiply-add and speculation of floating-point
# operations are allowed here alone: nothing in these files must be reproduced bit for bit.
set(KERNEL_OPTIONS -O3 -ffp-contract=fast -fno-trapping-math)
set_source_files_properties(src/device/cpu/kernels.c PROPERTIES COMPILE_OPTIONS "${KERNEL_OPTIONS}")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties(src/device/cpu/kernels_avx2.c PROPERTIES
    COMPILE_OPTIONS "${KERNEL_OPTIONS};-mavx2;-mfma")
  set_source_files_properties(src/device/cpu/kernels_avx512.c PROPERTIES
    COMPILE_OPTIONS "${KERNEL_OPTIONS};-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mprefer-vector-width=512")
endif()
