/* Certificates and keys of a client's TLS, read from their files. */
#ifndef CLIENTS_API_PEM_H
#define CLIENTS_API_PEM_H

#include "clients/api/api.h"

/* Reads the files that the options or the environment name into the server, if its URL is https.
 * 0, or -1 and why. */
int pem_take(struct api_server *, const struct api_options *, struct api_error *);
/* What a handle for https trusts and shows. The server must outlive it. */
void pem_give(CURL *, const struct api_server *);

#endif
