/* What a line of the audit log says about other lines: checkpoints, and files that were removed
 * (audit_chain.h). */
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "agent-sandbox/audit_chain.h"
#include "common/ids.h"

static const char *
text_of(const json_t *o, const char *name)
{
	const char *s = json_string_value(json_object_get(o, name));

	return s != NULL ? s : "";
}

static enum chain_fault
no_checkpoint(struct chain *c, const char *what)
{
	return chain_fault(c, CHAIN_SIGNATURE, "the checkpoint's member %s is not good", what);
}

static int
is_known(struct chain *c, const uint8_t key[32])
{
	if (c->nkeys == 0) {
		memcpy(c->keys[c->nkeys++], key, 32);
		c->trusts_first = 1;
	}
	for (size_t i = 0; i < c->nkeys; i++)
		if (memcmp(c->keys[i], key, 32) == 0)
			return 1;
	return 0;
}

static int
is_signed(const uint8_t key[32], const uint8_t signature[64], const char *text, size_t n)
{
	EVP_PKEY *pkey = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, key, 32);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	int ok = pkey != NULL && ctx != NULL &&
		 EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, pkey) == 1 &&
		 EVP_DigestVerify(ctx, signature, 64, (const uint8_t *)text, n) == 1;

	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(pkey);
	return ok;
}

/* The line that was signed is the line that is there; before the first one read nobody can say. */
static enum chain_fault
check_head(struct chain *c, uint64_t upto, const char *head)
{
	if (upto < c->first)
		return CHAIN_OK;
	if (upto >= c->seq || c->seq - upto >= CHAIN_RECENT)
		return no_checkpoint(c, "upto");
	if (strcmp(c->recent[upto % CHAIN_RECENT], head) == 0)
		return CHAIN_OK;
	return chain_fault(c, CHAIN_RECHAINED,
	    "line %" PRIu64 " is not the one that was signed: something was changed behind line "
	    "%" PRIu64 ", and all lines from there on were made to fit",
	    upto, c->signed_upto);
}

static enum chain_fault
checkpoint(struct chain *c, const json_t *o)
{
	const char *instance = text_of(o, "instance"), *head = text_of(o, "head");
	int64_t at, upto = json_integer_value(json_object_get(o, "upto"));
	uint8_t key[32], signature[64];
	char text[AUDIT_SIGNED_MAX];
	enum chain_fault fault;
	size_t n;

	if (upto < 1 || strlen(head) != AUDIT_HASH_TEXT - 1)
		return no_checkpoint(c, upto < 1 ? "upto" : "head");
	if (strlen(instance) != AUDIT_INSTANCE_LEN || time_parse(text_of(o, "at"), &at) == -1)
		return no_checkpoint(c, "instance or at");
	if (hex_decode(text_of(o, "key"), key, sizeof(key)) == -1 ||
	    hex_decode(text_of(o, "signature"), signature, sizeof(signature)) == -1)
		return no_checkpoint(c, "key or signature");
	if (!is_known(c, key))
		return chain_fault(
		    c, CHAIN_KEY, "it is signed by another key: %s", text_of(o, "key"));
	n = audit_signed_text(text, instance, (uint64_t)upto, head, at);
	if (!is_signed(key, signature, text, n))
		return chain_fault(c, CHAIN_SIGNATURE, "the signature is wrong");
	if ((fault = check_head(c, (uint64_t)upto, head)) != CHAIN_OK)
		return fault;
	c->checkpoints++;
	if ((uint64_t)upto < c->signed_upto)
		return chain_fault(
		    c, CHAIN_SIGNATURE, "the checkpoint is older than the one before");
	c->signed_upto = (uint64_t)upto;
	hex_encode(key, sizeof(key), c->signer);
	return CHAIN_OK;
}

enum chain_fault
chain_special(struct chain *c, const char *line, size_t len)
{
	json_t *o = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
	enum chain_fault fault = CHAIN_OK;
	const char *action;

	if (o == NULL)
		return chain_fault(c, CHAIN_CHANGED, "this is no line of an audit log");
	action = text_of(o, "action");
	if (strcmp(action, "checkpoint") == 0)
		fault = checkpoint(c, o);
	else if (strcmp(action, "removed") == 0 && c->behind != 0 &&
		 strcmp(text_of(o, "head"), c->behind_head) == 0)
		c->behind = 0;
	json_decref(o);
	return fault;
}
