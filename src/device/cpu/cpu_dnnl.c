/* oneDNN in few words. */
#include "device/cpu/cpu.h"

enum { MAX_ARGS = 5 };

tsr_status tsr__dnnl_check(const tsr__device *device, dnnl_status_t status, const char *what) {
    if (status == dnnl_success) return TSR_OK;
    return tsr__fail(device->engine, status == dnnl_out_of_memory ? TSR_NOMEM : TSR_BACKEND,
                     "oneDNN could not %s (its status %d); --device ref does without it", what, (int)status);
}

dnnl_primitive_attr_t tsr__dnnl_attributes(void) {
    dnnl_primitive_attr_t attributes = NULL;
    if (dnnl_primitive_attr_create(&attributes) != dnnl_success) return NULL;
    if (dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user) == dnnl_success)
        return attributes;
    (void)dnnl_primitive_attr_destroy(attributes);
    return NULL;
}

static dnnl_status_t execute(const tsr__cpu *cpu, dnnl_primitive_t primitive, const tsr__dnnl_arg *args, int n) {
    dnnl_exec_arg_t memory[MAX_ARGS] = {{0}};
    dnnl_status_t status = dnnl_success;
    int made = 0;
    for (; made < n && status == dnnl_success; made++) {
        void *data = args[made].data ? (void *)(uintptr_t)args[made].data : DNNL_MEMORY_NONE;
        memory[made].arg = args[made].index;
        status = dnnl_memory_create(&memory[made].memory, args[made].desc, cpu->engine, data);
    }
    if (status == dnnl_success) status = dnnl_primitive_execute(primitive, cpu->stream, n, memory);
    if (status == dnnl_success) status = dnnl_stream_wait(cpu->stream);
    for (int i = 0; i < made; i++)
        if (memory[i].memory) (void)dnnl_memory_destroy(memory[i].memory);
    return status;
}

tsr_status tsr__dnnl_run(const tsr__device *device, const_dnnl_primitive_desc_t desc, const tsr__dnnl_arg *args,
                         int n) {
    dnnl_primitive_t primitive = NULL;
    dnnl_status_t status = dnnl_primitive_create(&primitive, desc);
    if (status == dnnl_success) {
        status = execute(tsr__cpu_of(device), primitive, args, n);
        (void)dnnl_primitive_destroy(primitive);
    }
    return tsr__dnnl_check(device, status, "run a primitive");
}
