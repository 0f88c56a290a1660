/* Who a client's certificate says it is (tls.h). It was verified when the handshake was. */
#include <openssl/x509.h>
#include <string.h>

#include "apid/tls.h"

/* Bytes that could be taken for another name in a log or a comparison are no name. */
static int
is_plain(const unsigned char *p, int n)
{
	int i;

	for (i = 0; i < n; i++) {
		if (p[i] < 32 || p[i] == 127)
			return 0;
	}
	return n > 0;
}

void
tls_subject(SSL *ssl, char *text, size_t size)
{
	X509 *x = SSL_get0_peer_certificate(ssl);
	const X509_NAME *name;
	unsigned char *utf8 = NULL;
	int at, n;

	memset(text, 0, size);
	if (x == NULL || SSL_get_verify_result(ssl) != X509_V_OK || !tls_peer_is_current(ssl))
		return;
	name = X509_get_subject_name(x);
	at = X509_NAME_get_index_by_NID(name, NID_commonName, -1);
	/* Two of them: which one would be meant? */
	if (at < 0 || X509_NAME_get_index_by_NID(name, NID_commonName, at) >= 0)
		return;
	n = ASN1_STRING_to_UTF8(&utf8, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at)));
	if (n >= 0 && (size_t)n < size && is_plain(utf8, n))
		memcpy(text, utf8, (size_t)n);
	OPENSSL_free(utf8);
}

int
tls_peer_is_current(SSL *ssl)
{
	X509 *x = SSL_get0_peer_certificate(ssl);

	return x == NULL || X509_cmp_current_time(X509_get0_notAfter(x)) > 0;
}
