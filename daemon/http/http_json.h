/* SPDX-License-Identifier: GPL-2.0-only */
/* What the answers in JSON are made of. */
#ifndef HABD_HTTP_JSON_H
#define HABD_HTTP_JSON_H

#include <jansson.h>

#include "daemon/http/http.h"
#include "daemon/habd/numbers.h"

void json_put(json_t *object, const char *key, uint64_t value);
void json_put_real(json_t *object, const char *key, double value);
void json_put_string(json_t *object, const char *key, const char *value);
/* The machine's exact counts. */
json_t *json_totals(const struct numbers *numbers);
/* Answers with the object, which is gone afterwards. */
void json_reply(json_t *object, struct reply *reply);

#endif /* HABD_HTTP_JSON_H */
