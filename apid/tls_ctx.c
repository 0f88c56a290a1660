/* One certificate's context (tls.h): versions, suites, what is refused, and the callbacks of a
 * handshake. */
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include <bsd/string.h>

#include "apid/keyless.h"
#include "apid/tls.h"
#include "common/log.h"

#define SUITES_12                                                    \
	"ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:" \
	"ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:" \
	"ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"
#define SUITES_13 "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
#define GROUPS "X25519:P-256:P-384"
/* What the certificate of a client may sign with. */
#define CLIENT_ALGORITHMS                                                                 \
	"ECDSA+SHA256:ECDSA+SHA384:ed25519:RSA-PSS+SHA256:RSA-PSS+SHA384:RSA-PSS+SHA512:" \
	"RSA+SHA256:RSA+SHA384"
#define TICKET_SECONDS 3600

const char *
tls_error(void)
{
	unsigned long code = ERR_peek_last_error();
	const char *text = code != 0 ? ERR_reason_error_string(code) : NULL;

	ERR_clear_error();
	return text != NULL ? text : "unknown reason";
}

int
tls_read_certificates(const char *pem, size_t n, STACK_OF(X509) * list, char *why, size_t size)
{
	BIO *bio = BIO_new_mem_buf(pem, (int)n);
	X509 *x;

	if (bio == NULL)
		fatalx("BIO_new_mem_buf");
	ERR_clear_error();
	while ((x = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
		if (!sk_X509_push(list, x))
			fatalx("sk_X509_push");
	}
	BIO_free(bio);
	/* The end of the text looks like the next one that is not there. */
	if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE) {
		snprintf(why, size, "certificate %d of it cannot be read (%s)",
		    sk_X509_num(list) + 1, tls_error());
		return -1;
	}
	ERR_clear_error();
	if (sk_X509_num(list) == 0) {
		snprintf(why, size, "there is no certificate in it (PEM is expected)");
		return -1;
	}
	return 0;
}

static int
on_alpn(SSL *ssl, const unsigned char **out, unsigned char *n, const unsigned char *in,
    unsigned int in_n, void *arg)
{
	static const unsigned char ours[] = "\x08http/1.1";
	unsigned char *chosen;

	(void)ssl;
	(void)arg;
	if (SSL_select_next_proto(&chosen, n, ours, sizeof(ours) - 1, in, in_n) !=
	    OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

/* Also without a name: a handshake that began before a reload goes on with what is in use now. */
static int
on_server_name(SSL *ssl, int *alert, void *arg)
{
	int found;
	SSL_CTX *ctx = tls_choose(SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name), &found);

	(void)alert;
	(void)arg;
	if (ctx != SSL_get_SSL_CTX(ssl) && SSL_set_SSL_CTX(ssl, ctx) == NULL)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	return found ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

static int
set_protocol(SSL_CTX *ctx)
{
	static const unsigned char session[] = "agent-sandbox";

	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
				     SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
	/* No partial writes: libevent goes on with the next piece after one. */
	SSL_CTX_clear_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE);
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_timeout(ctx, TICKET_SECONDS);
	SSL_CTX_set_alpn_select_cb(ctx, on_alpn, NULL);
	SSL_CTX_set_tlsext_servername_callback(ctx, on_server_name);
	return SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1 &&
	       SSL_CTX_set_cipher_list(ctx, SUITES_12) == 1 &&
	       SSL_CTX_set_ciphersuites(ctx, SUITES_13) == 1 &&
	       SSL_CTX_set1_groups_list(ctx, GROUPS) == 1 && SSL_CTX_set_num_tickets(ctx, 1) == 1 &&
	       SSL_CTX_set_max_early_data(ctx, 0) == 1 &&
	       SSL_CTX_set_session_id_context(ctx, session, sizeof(session) - 1) == 1 &&
	       SSL_CTX_set_tlsext_ticket_key_evp_cb(ctx, tls_ticket) == 1;
}

static void
set_client_ca(SSL_CTX *ctx, const struct tls_input *in)
{
	STACK_OF(X509_NAME) * names;

	if (in->client_ca == NULL)
		return;
	if ((names = SSL_dup_CA_list(in->client_ca_names)) == NULL)
		fatalx("SSL_dup_CA_list");
	SSL_CTX_set_client_CA_list(ctx, names);
	SSL_CTX_set1_cert_store(ctx, in->client_ca);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL); /* none is good too, a bad one is not */
}

/* The first is the server's own, those behind it are sent with it. */
static int
set_chain(SSL_CTX *ctx, STACK_OF(X509) * chain, EVP_PKEY *key, char *why, size_t size)
{
	X509 *own = sk_X509_value(chain, 0);
	int i;

	if (EVP_PKEY_eq(X509_get0_pubkey(own), key) != 1) {
		snprintf(why, size, "the certificate is not that of the key at the same place");
		ERR_clear_error();
		return -1;
	}
	if (SSL_CTX_use_certificate(ctx, own) != 1 || SSL_CTX_use_PrivateKey(ctx, key) != 1) {
		snprintf(why, size, "the certificate cannot be used: %s", tls_error());
		return -1;
	}
	for (i = 1; i < sk_X509_num(chain); i++) {
		if (SSL_CTX_add1_chain_cert(ctx, sk_X509_value(chain, i)) != 1) {
			snprintf(why, size, "certificate %d of it cannot be used: %s", i + 1,
			    tls_error());
			return -1;
		}
	}
	if (X509_cmp_current_time(X509_get0_notAfter(own)) <= 0)
		log_warnx("a certificate of the server has expired: clients will refuse it");
	return 0;
}

SSL_CTX *
tls_ctx_new(const struct tls_input *in, char *why, size_t size)
{
	const char *algorithms = keyless_algorithms(in->key);
	STACK_OF(X509) *chain = sk_X509_new_null();
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

	if (chain == NULL || ctx == NULL)
		fatalx("SSL_CTX_new");
	if (tls_read_certificates(in->chain, in->n, chain, why, size) == -1 ||
	    set_chain(ctx, chain, in->key, why, size) == -1)
		goto fail;
	if (!set_protocol(ctx) || algorithms == NULL ||
	    SSL_CTX_set1_sigalgs_list(ctx, algorithms) != 1 ||
	    SSL_CTX_set1_client_sigalgs_list(ctx, CLIENT_ALGORITHMS) != 1) {
		snprintf(why, size, "OpenSSL: %s", tls_error());
		goto fail;
	}
	set_client_ca(ctx, in);
	sk_X509_pop_free(chain, X509_free);
	return ctx;
fail:
	sk_X509_pop_free(chain, X509_free);
	SSL_CTX_free(ctx);
	return NULL;
}
