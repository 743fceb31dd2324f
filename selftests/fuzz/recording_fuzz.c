// SPDX-License-Identifier: GPL-2.0-only
/*
 * habctl's reader of recordings, and what it makes of them.
 *
 * The first byte: bit 0, the rest is the file itself, else it is packed first, or no input
 * would come through gzip's checksum; the other bits, which report is made.
 */
#include <zlib.h>

#include "fuzz.h"
#include "daemon/profile/profile_read.h"
#include "daemon/habctl/report.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	be_silent();
	return 0;
}

static void pack(const struct input *input, struct text *out)
{
	z_stream stream = { .next_in = (Bytef *)input->data, .avail_in = (uInt)input->size };
	unsigned char chunk[4096];

	if (deflateInit2(&stream, 0, Z_DEFLATED, 15 + 16, 1, Z_DEFAULT_STRATEGY) != Z_OK)
		abort();
	do {
		stream.next_out = chunk;
		stream.avail_out = sizeof(chunk);
		deflate(&stream, Z_FINISH);
		text_bytes(out, chunk, sizeof(chunk) - stream.avail_out);
	} while (!stream.avail_out);
	deflateEnd(&stream);
}

static void write_report(const struct profile *profile, unsigned int how, bool intervals)
{
	struct text out = { 0 };
	struct report report;

	if (how % 9 < BY_NOTHINGS) {
		report_begin(&report, how % 9, profile, how & 1 ? profile : NULL);
		if (how & 1)
			report_table_diff(&report, 10, intervals, &out);
		else
			report_table(&report, 10, intervals, &out);
		report_end(&report);
	} else if (how % 9 == BY_NOTHINGS) {
		profile_write_html(profile, &out);
	} else {
		profile_write_folded(profile, &out);
	}
	text_end(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = { data, size };
	uint8_t how = take_byte(&input);
	struct profile *profile;
	struct text packed = { 0 };
	bool has_errors = false;
	char why[400] = "";

	if (how & 1) {
		profile = profile_read(input.data, input.size, NULL, &has_errors, why, sizeof(why));
	} else {
		pack(&input, &packed);
		profile = profile_read(packed.data, packed.length, NULL, &has_errors, why,
				       sizeof(why));
		text_end(&packed);
	}
	/* What is not read is said. */
	promise(!profile == !!*why);
	if (profile)
		write_report(profile, how >> 1, has_errors);
	profile_free(profile);
	return 0;
}
