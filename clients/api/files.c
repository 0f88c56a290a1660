/* The files that calls of the API read (files.h). */
#include <stdlib.h>

#include "clients/api/files.h"

#define OWN 2 /* places for what the user trusts instead */

const struct confine_path *
api_files(void)
{
	static struct confine_path paths[] = {{"/etc/hosts", "r"}, {"/etc/resolv.conf", "r"},
	    {"/etc/nsswitch.conf", "r"}, {"/etc/host.conf", "r"}, {"/etc/gai.conf", "r"},
	    {"/etc/services", "r"}, {"/etc/protocols", "r"}, {"/etc/ld.so.cache", "r"},
	    {"/lib", "r"}, {"/lib64", "r"}, {"/usr/lib", "r"}, {"/usr/lib64", "r"},
	    {"/etc/ssl/certs", "r"}, {"/etc/ssl/cert.pem", "r"}, {"/etc/ssl/openssl.cnf", "r"},
	    {"/etc/pki/tls/certs", "r"}, {"/etc/pki/tls/openssl.cnf", "r"},
	    {"/etc/pki/ca-trust", "r"}, {"/etc/ca-certificates", "r"},
	    {"/usr/share/ca-certificates", "r"}, {"/usr/local/share/ca-certificates", "r"},
	    {"/var/lib/ca-certificates", "r"}, {"/etc/crypto-policies", "r"},
	    {"/run/systemd/resolve", "r"}, {"/run/resolvconf", "r"}, {"/dev/urandom", "r"},
	    [26 + OWN] = {NULL, NULL}};
	static const char *const variables[OWN] = {"SSL_CERT_FILE", "SSL_CERT_DIR"};
	struct confine_path *end = paths;

	while (end->path != NULL)
		end++;
	for (int i = 0; i < OWN; i++) {
		const char *path = getenv(variables[i]);

		if (path != NULL && *path != '\0')
			*end++ = (struct confine_path){path, "r"};
	}
	return paths;
}
