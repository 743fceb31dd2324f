// SPDX-License-Identifier: GPL-2.0-only
/*
 * /v1/sites, as JSON: what each site has allocated or in use, as in the tables of habctl report,
 * with an interval for each number. Of two spans: the change.
 */
#include "daemon/habd/history/reader.h"
#include "daemon/habd/http/handlers.h"
#include "daemon/habd/http/response.h"
#include "daemon/profile/formats/report.h"
#include "daemon/shared/kinds.h"

#define ROWS 100u

struct sites {
	struct profile *profile;
	struct profile *old; /* NULL: no change is shown */
	bool in_use;
	bool has_errors;
	unsigned int damaged;
};

static void put_row(json_t *object, const struct sites *sites, const struct report *report,
		    const struct report_row *row)
{
	double total = (double)report->all.totals[0][row->kind].estimate;
	double bytes = (double)row->counts[0].estimate;

	/* clang-format off */
	json_object_update_new(object, json_pack("{sf sf sf sI sf}",
		"bytes", bytes,
		"objects", report_sum(row, REPORT_EVENTS),
		"share", total > 0 ? bytes / total : 0,
		"samples", (json_int_t)row->counts[0].samples,
		"in_use", report_sum(row, REPORT_IN_USE)));
	if (sites->has_errors)
		json_object_update_new(object, json_pack("{so so}",
			"interval", reply_interval(report_interval(report, row, REPORT_BYTES)),
			"objects_interval",
			reply_interval(report_interval(report, row, REPORT_EVENTS))));
	/* clang-format on */
	reply_put_resident(object, &row->in_use[0]);
	if (sites->has_errors && sites->profile->in_use_has_errors)
		json_object_set_new(object, "in_use_interval",
				    reply_interval(report_interval(report, row, REPORT_IN_USE)));
}

/* Bytes a second; of what is in use: bytes. */
static void put_change(json_t *object, const struct sites *sites, const struct report *report,
		       const struct report_row *row)
{
	/* clang-format off */
	json_object_update_new(object, json_pack("{sf sf sf}",
		"old", (double)row->counts[0].estimate * report->per_second[0],
		"new", (double)row->counts[1].estimate * report->per_second[1],
		"change", row->change));
	/* clang-format on */
	if (sites->has_errors)
		json_object_set_new(object, "interval", reply_interval(report_change(report, row)));
}

static json_t *rows_json(const struct sites *sites, const struct report *report)
{
	json_t *rows = json_array(), *object;
	const struct report_row *row;
	unsigned int i;

	for (i = 0; i < report->count && i < ROWS; i++) {
		row = &report->rows[i];
		object = json_pack("{ss ss}", "site", row->name, "event", kind_name(row->kind));
		if (sites->old)
			put_change(object, sites, report, row);
		else
			put_row(object, sites, report, row);
		json_array_append_new(rows, object);
	}
	return rows;
}

static json_t *sites_json(const struct sites *sites)
{
	const struct profile *one = sites->old ? sites->old : sites->profile;
	struct report report;
	char kinds[64];
	json_t *object;

	report_begin(&report, BY_SITE, sites->in_use, one, sites->old ? sites->profile : NULL);
	kinds_text(sites->profile->kinds, kinds, sizeof(kinds));
	/* clang-format off */
	object = json_pack("{ss so sf sI sb sb sI sI so}",
		"event", kinds,
		"other_events", reply_kinds(sites->profile->other_kinds),
		"seconds", (double)sites->profile->duration_ns / 1e9,
		"samples", (json_int_t)sites->profile->total.samples,
		"knows_in_use", sites->profile->knows_in_use,
		"change", sites->old != NULL,
		"damaged", (json_int_t)sites->damaged,
		"nr_sites", (json_int_t)report.count,
		"sites", rows_json(sites, &report));
	/* clang-format on */
	report_end(&report);
	return object;
}

/* False after reply_error(). */
static bool read_sites(struct request *request, struct reply *reply, const struct filter *filter,
		       struct sites *sites)
{
	struct span span = span_all(request->state);
	struct history_found found = { .has_errors = true };

	if (request_has_span(request))
		sites->profile = history_profile(request, reply, filter, &sites->old, &found);
	else
		sites->profile = span_profile(request->state, &span, filter);
	sites->has_errors = found.has_errors;
	sites->damaged = found.unread;
	return sites->profile;
}

static void reply_sites(struct request *request, struct reply *reply, const struct filter *filter,
			struct sites *sites)
{
	struct profile *profiles[2] = { sites->profile, sites->old };
	unsigned int i;
	json_t *object;

	for (i = 0; i < 2 && sites->in_use && profiles[i]; i++) {
		if (!profiles[i]->knows_in_use) {
			reply_error(
				reply, 404,
				"It is not known what was in use: only programs with the preload "
				"library report it.");
			return;
		}
		sites->has_errors &= profiles[i]->in_use_has_errors;
		profile_show_in_use(profiles[i]);
	}
	/* The rows take memory, too. */
	pthread_mutex_lock(&request->state->render);
	object = sites_json(sites);
	pthread_mutex_unlock(&request->state->render);
	reply_json(reply, object, true);
}

void http_sites(struct request *request, struct reply *reply)
{
	struct sites sites = { 0 };
	enum profile_view view;
	struct filter filter;

	if (!request_view(request, reply, &view) || !request_filter(request, reply, &filter))
		return;
	if (view == PROFILE_BOTH) {
		reply_error(reply, 400, "view=both: a table is of one of allocated and in-use.");
		filter_end(&filter);
		return;
	}
	sites.in_use = view == PROFILE_IN_USE;
	state_turn_begin(request->state);
	if (reply_take(reply, LIMITED_ANSWERS, 0) && read_sites(request, reply, &filter, &sites))
		reply_sites(request, reply, &filter, &sites);
	profile_free(sites.profile);
	profile_free(sites.old);
	state_turn_end(request->state);
	filter_end(&filter);
}
