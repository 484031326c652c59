#include <tessera/status.h>

const char *tsr_version(void) { return TSR__VERSION; }
