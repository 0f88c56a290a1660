/* Descriptors that others sent. */
#ifndef MANAGERD_FDS_H
#define MANAGERD_FDS_H

/* Whether fd is a unix socket of this type (SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM). */
int fd_is_socket(int fd, int type);

#endif
