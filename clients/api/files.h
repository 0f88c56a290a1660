/* The files of this host that libcurl, its resolver and its TLS read while calls are made: all that
 * a program that only asks a server must still be able to open. */
#ifndef CLIENTS_API_FILES_H
#define CLIENTS_API_FILES_H

#include "common/confine.h"

/* For confine_client(); SSL_CERT_FILE and SSL_CERT_DIR are among them. */
const struct confine_path *api_files(void);

#endif
