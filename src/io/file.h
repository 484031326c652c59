/* Whole files, parts of files, and outputs that appear complete or not at all. */
#ifndef TSR_IO_FILE_H
#define TSR_IO_FILE_H

#include "base/engine.h"

/* Something is at `path` (symbolic links followed). */
bool tsr__path_exists(const char *path);
bool tsr__path_is_folder(const char *path);
bool tsr__path_ends(const char *path, const char *end); /* such an end as ".json" */
/* folder/name without a doubled slash; an empty folder gives name. Owner: the caller (tsr__free). NULL: no memory. */
char *tsr__path_join(tsr_engine *engine, const char *folder, const char *name);

/* Reads a whole file, device, or pipe that somebody writes into. *bytes has a NUL behind its *n bytes. Owner: the
 * caller (tsr__free). Errors: IO, FORMAT (more than max_bytes), NOMEM. */
TSR_NODISCARD tsr_status tsr__file_read(tsr_engine *engine, const char *path, size_t max_bytes, char **bytes,
                                        size_t *n);
/* Reads exactly n bytes at `offset` into dst. `path` is for the message. Errors: IO (also where the file ends). */
TSR_NODISCARD tsr_status tsr__file_read_at(tsr_engine *engine, int fd, const char *path, uint64_t offset, void *dst,
                                           size_t n);

/* Makes a file that is not there yet, with room for `bytes` reserved, so that a full disk is met here (where the file
 * system can reserve). Errors: IO. Owner of *fd: the caller (tsr__file_finish). */
TSR_NODISCARD tsr_status tsr__file_create(tsr_engine *engine, const char *path, uint64_t bytes, int *fd);
/* Writes n bytes at `offset`; threads and processes may write different parts at once. Errors: IO. */
TSR_NODISCARD tsr_status tsr__file_write_at(tsr_engine *engine, int fd, const char *path, uint64_t offset,
                                            const void *src, size_t n);
/* Brings what was written to the disk, unless `status` is a failure already, and closes. Returns the first failure. */
TSR_NODISCARD tsr_status tsr__file_finish(tsr_engine *engine, int fd, const char *path, tsr_status status);
/* A new file of n bytes, on the disk when this returns; and one of the bytes of another file. Errors: IO, NOMEM. */
TSR_NODISCARD tsr_status tsr__file_put(tsr_engine *engine, const char *path, const void *src, size_t n);
TSR_NODISCARD tsr_status tsr__file_copy(tsr_engine *engine, const char *from, const char *to);

/* Whether the first bytes of a file are those of something that often lies where a model file should be: FORMAT, and
 * the message says what it is (Git LFS pointer, HTML page, pickle, ...) and what to do. Otherwise OK. */
TSR_NODISCARD tsr_status tsr__file_refuse_impostor(tsr_engine *engine, const char *path, const char *bytes, size_t n);

/* A file being written. A regular file is written aside, in the same folder, and takes its name at commit with the
 * permissions that open(2) would give or that the replaced file had; a symbolic link stays and its target is replaced.
 * Devices, pipes and names in /proc (which /dev/stdout is) are written in place. */
typedef struct tsr__output tsr__output;

/* Refuses at once what cannot be written. Errors: IO (with the system's reason), ARG (empty path), NOMEM.
 * Owner: the caller, who ends it with commit or discard. */
TSR_NODISCARD tsr_status tsr__output_open(tsr_engine *engine, const char *path, tsr__output **out);
/* Errors: IO; the caller then discards. */
TSR_NODISCARD tsr_status tsr__output_write(tsr__output *output, const void *bytes, size_t n);
/* Ends the output in any case; on failure the old file is untouched. Errors: IO. */
TSR_NODISCARD tsr_status tsr__output_commit(tsr__output *output);
/* Leaves nothing behind. NULL is allowed. */
void tsr__output_discard(tsr__output *output);

#endif
