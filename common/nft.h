/* Asks the kernel's packet filter one thing, without a library or another program. */
#ifndef COMMON_NFT_H
#define COMMON_NFT_H

/* Whether the table "inet NAME" is loaded in this network namespace: 1, 0, or -1 when it cannot be
 * told (not root). */
int nft_table_loaded(const char *name);

#endif
