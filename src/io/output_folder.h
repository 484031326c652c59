/* A folder that appears complete or not at all: written beside its place, then put there in one step. */
#ifndef TSR_IO_OUTPUT_FOLDER_H
#define TSR_IO_OUTPUT_FOLDER_H

#include "base/engine.h"

/* What the folder will hold: copies of small files from source folders, and weights that the caller writes. */
typedef struct tsr__contents tsr__contents;

/* Owner: the caller (tsr__contents_free, which takes NULL). Errors: NOMEM. */
TSR_NODISCARD tsr_status tsr__contents_create(tsr_engine *engine, tsr__contents **out);
void tsr__contents_free(tsr__contents *contents);
/* Takes the files of the source folder `from` into the folder `to` of the contents ("" is the contents' root). Left out
 * are hidden files and, of `from` itself, weights. except NULL: `from` is a component: its subfolders are left out, and
 * the caller writes weights into `to`. Else: subfolders are taken with all that is in them, but for those of these
 * names (ended by NULL). Symbolic links are followed. Errors: IO (also folders nested too deep), NOMEM. */
TSR_NODISCARD tsr_status tsr__contents_add(tsr__contents *contents, const char *from, const char *to,
                                           const char *const *except);

typedef struct tsr__output_folder tsr__output_folder;

/* Checks everything that can be checked before the first write, then makes the temporary folder <path>.tmp-<random>.
 * `weight_bytes`: what the caller will write beside the contents, which must live as long as the output.
 * Errors: ARG (empty path; path in a source folder or around one; it exists and holds something that is not of such
 * contents: the message names it), IO (no folder around it, not writable, disk too small: with both numbers), NOMEM.
 * Owner: the caller, who ends it with commit or discard. */
TSR_NODISCARD tsr_status tsr__output_folder_open(tsr_engine *engine, const char *path, const tsr__contents *contents,
                                                 uint64_t weight_bytes, tsr__output_folder **out);
/* The temporary folder: an absolute path, as long as the output lives. */
const char *tsr__output_folder_path(const tsr__output_folder *output);
/* Copies the contents, brings all to the disk and puts the folder in its place; the old one, which until then is whole,
 * is removed. Ends the output in any case; after a failure the old folder is in its place. Errors: IO, NOMEM, ARG. */
TSR_NODISCARD tsr_status tsr__output_folder_commit(tsr__output_folder *output);
/* Leaves nothing behind. NULL is allowed. */
void tsr__output_folder_discard(tsr__output_folder *output);

/* --- between the two files of this module --- */

bool tsr__contents_has(const tsr__contents *contents, const char *path); /* relative to the contents' root */
uint64_t tsr__contents_bytes(const tsr__contents *contents);
/* The i-th source folder, or NULL. */
const char *tsr__contents_source(const tsr__contents *contents, size_t i);
/* Makes the subfolders that weights go to, and the copies, in `folder`. Errors: IO, NOMEM. */
TSR_NODISCARD tsr_status tsr__contents_make_folders(const tsr__contents *contents, const char *folder);
TSR_NODISCARD tsr_status tsr__contents_copy(const tsr__contents *contents, const char *folder);

#endif
