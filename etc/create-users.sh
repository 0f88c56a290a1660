#!/bin/sh
# Makes the system users that the programs run as, one for each, without home and shell. Harmless to run again.
set -eu
for user in _as-api _as-manager _as-docker _as-egress _as-key _as-session; do
	getent passwd $user >/dev/null && continue
	echo "making the system user $user"
	getent group $user >/dev/null || groupadd --system $user
	useradd --system --gid $user --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin \
		--comment "agent-sandbox" $user
done
