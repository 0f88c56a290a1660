/* Sums of refused requests, see audit_fold.h. */
#include "managerd/audit_fold.h"

#include <bsd/string.h>
#include <jansson.h>

#include "managerd/audit.h"
#include "managerd/audit_log.h"
#include "managerd/request.h"
#include "managerd/tenant.h"

#define FOLDS_MAX 256 /* more than one key can have: each action with each status */

static const char why[] =
    "refused before anything was begun, too many in a second for lines of their own";

/* What one key was refused in this second, by action and status. */
struct fold {
	uint32_t key; /* its serial */
	uint32_t status;
	const char *action;
	const struct tenant *tenant;
	char key_name[sizeof(((struct request *)0)->key_name)];
	unsigned lines; /* that were written */
	uint64_t count; /* of those without one */
};

static struct fold folds[FOLDS_MAX];
static size_t nfolds;

static struct fold *
fold_new(const struct request *rq, uint32_t status)
{
	struct fold *f;

	if (nfolds == FOLDS_MAX)
		return NULL;
	f = &folds[nfolds++];
	*f = (struct fold){
	    .key = rq->key, .status = status, .action = rq->action, .tenant = rq->tenant};
	strlcpy(f->key_name, rq->key_name, sizeof(f->key_name));
	return f;
}

/* The actions are constants: each is one string. */
int
audit_fold(const struct request *rq, uint32_t status)
{
	struct fold *f, *same = NULL;
	unsigned lines = 0;

	for (f = folds; f < &folds[nfolds]; f++) {
		if (f->key != rq->key)
			continue;
		lines += f->lines;
		if (f->action == rq->action && f->status == status)
			same = f;
	}
	if (same == NULL && (same = fold_new(rq, status)) == NULL) {
		audit_unseen(status, why);
		return 1;
	}
	if (lines < AUDIT_REFUSALS) {
		same->lines++;
		return 0;
	}
	same->count++;
	return 1;
}

void
audit_fold_tell(void)
{
	const struct fold *f;

	for (f = folds; f < &folds[nfolds]; f++) {
		if (f->count == 0)
			continue;
		audit_log_put(
		    json_pack("{s:s, s:I, s:s?, s:s, s:i, s:s}", "action", f->action, "count",
			(json_int_t)f->count, "key", f->key_name[0] != '\0' ? f->key_name : NULL,
			"tenant", f->tenant->name, "status", (int)f->status, "reason", why));
	}
	nfolds = 0;
}
