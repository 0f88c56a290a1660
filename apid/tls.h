/*
 * TLS of apid: the certificates by name, tickets, certificates of clients, and taking all of them
 * anew. What is in use is one generation of files from the parent, whose keys keyd has; it goes on
 * until a newer one is whole and good.
 */
#ifndef APID_TLS_H
#define APID_TLS_H

#include <openssl/ssl.h>
#include <stddef.h>
#include <stdint.h>

struct event_base;

#define TLS_CERTS_MAX 16
#define TLS_FILE_MAX (256 * 1024)
#define TLS_NO_INDEX 255
#define TLS_HANDSHAKE_SECONDS 10

/* Before the confinement. */
void tls_init(struct event_base *);
/* Files of the generation that comes; what is wrong with them is told by tls_use(). They take over
 * fd. */
void tls_take_certificate(uint32_t generation, uint32_t index, int fd);
void tls_take_client_ca(uint32_t generation, int fd);
/*
 * All of it is there: 0, it is in use from now on, or -1, and nothing has changed: then why says
 * what is wrong with certificate *index, or with the client CA (TLS_NO_INDEX).
 */
int tls_use(uint32_t generation, uint32_t count, uint8_t *index, char *why, size_t size);
/* Whether connections are TLS. */
int tls_is_on(void);
/* The server's side of a new connection. */
SSL *tls_new(void);
/* The context for a server name as a client sends it (NULL: it sends none). */
SSL_CTX *tls_choose(const char *name, int *found);

/* The CN of the client's certificate, "" without one and when its time is over. size is that of
 * text, which is all written. */
void tls_subject(SSL *, char *text, size_t size);
/* Whether the client's certificate, which a ticket may have brought back, is in its time. */
int tls_peer_is_current(SSL *);

/* tls_ctx.c */
struct tls_input {
	EVP_PKEY *key;
	char *chain; /* PEM */
	size_t n;
	X509_STORE *client_ca; /* NULL: clients show no certificates */
	STACK_OF(X509_NAME) * client_ca_names;
};
/* A context for one certificate; NULL with why. */
SSL_CTX *tls_ctx_new(const struct tls_input *, char *why, size_t size);
/* -1 with why: PEM that is no list of certificates. */
int tls_read_certificates(const char *pem, size_t n, STACK_OF(X509) *, char *why, size_t size);
/* The newest of OpenSSL's complaints as a few words; there are none afterwards. */
const char *tls_error(void);

/* tls_ticket.c: keys of session tickets, that change by the hour and are in no file. */
int tls_ticket(
    SSL *, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *, EVP_MAC_CTX *, int encrypt);
/* Tickets that were given out are worth nothing any more. */
void tls_ticket_forget(void);

#endif
