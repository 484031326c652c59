/* What the forms of a plan share. */
#ifndef CLI_PLAN_H
#define CLI_PLAN_H

#include "cli.h"

enum { CLI_PLAN_TEXT = 320 };

/* "[64, 128]" */
const char *cli_plan_list(const int64_t *numbers, size_t n, char text[CLI_PLAN_TEXT]);

void cli_plan_print_json(const tsr_plan *plans, size_t n, const cli_options *options);
void cli_plan_print_table(const tsr_plan *plans, size_t n, const cli_options *options);

#endif
