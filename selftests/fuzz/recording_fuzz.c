// SPDX-License-Identifier: GPL-2.0-only
/*
 * habctl's reader of recordings, the merge of two, and the reports of what it has read.
 *
 * The first byte: bit 0, the rest is the file itself; else it is packed first, since few inputs
 * pass the checksum of gzip. The other bits choose the report.
 */
#include <zlib.h>

#include "daemon/habctl/report_table.h"
#include "daemon/profile/formats/table.h"
#include "daemon/profile/merge.h"
#include "daemon/profile/formats/read.h"
#include "daemon/shared/util.h"
#include "fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	be_silent();
	return 0;
}

static void pack(const struct input *input, FILE *out)
{
	z_stream stream = { .next_in = (Bytef *)input->data, .avail_in = (uInt)input->size };
	unsigned char chunk[4096];

	if (deflateInit2(&stream, 0, Z_DEFLATED, 15 + 16, 1, Z_DEFAULT_STRATEGY) != Z_OK)
		abort();
	do {
		stream.next_out = chunk;
		stream.avail_out = sizeof(chunk);
		deflate(&stream, Z_FINISH);
		fwrite(chunk, 1, sizeof(chunk) - stream.avail_out, out);
	} while (!stream.avail_out);
	deflateEnd(&stream);
}

static void write_report(const struct profile *profile, unsigned int how, bool intervals)
{
	struct report report;
	size_t length;
	char *text;
	FILE *out = text_open(&text, &length);

	if (how % 9 < REPORT_BYS) {
		report_begin(&report, how % 9, how & 2, profile, how & 1 ? profile : NULL);
		report_table(&report, 10, intervals, out);
		report_end(&report);
	} else if (how % 9 == REPORT_BYS) {
		profile_write_html(profile, out);
	} else {
		profile_write_folded(profile, out);
	}
	text_close(out);
	free(text);
}

/* A merge can be read again as it is. */
static void merge_twice(const struct profile *profile)
{
	struct merge *merge = merge_begin();
	struct profile *merged, *again;
	bool has_errors;
	size_t length;
	char *data, why[400];
	FILE *out;

	merge_add(merge, profile, true);
	merge_add(merge, profile, false);
	merged = merge_end(merge);
	out = text_open(&data, &length);
	profile_write_pprof(merged, out);
	text_close(out);
	again = profile_read(data, length, NULL, &has_errors, why, sizeof(why));
	promise(again && again->total.samples == merged->total.samples);
	promise(again->total.estimate == merged->total.estimate);
	profile_free(again);
	profile_free(merged);
	free(data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = { data, size };
	uint8_t how = take_byte(&input);
	struct profile *profile;
	bool has_errors = false;
	char why[400] = "", *packed;
	size_t length;
	FILE *out;

	if (how & 1) {
		profile = profile_read(input.data, input.size, NULL, &has_errors, why, sizeof(why));
	} else {
		out = text_open(&packed, &length);
		pack(&input, out);
		text_close(out);
		profile = profile_read(packed, length, NULL, &has_errors, why, sizeof(why));
		free(packed);
	}
	/* Without a profile there is a sentence. */
	promise(!profile == !!*why);
	if (profile) {
		merge_twice(profile);
		write_report(profile, how >> 1, has_errors);
	}
	profile_free(profile);
	return 0;
}
