# Completion of agent-sandbox(1) for bash. Verbs and options come from the command's own help, ids and
# paths from the server.

# "  create     Makes a sandbox ..." of the help
_agent_sandbox_verbs() {
	agent-sandbox --help 2>/dev/null | sed -n 's/^  \([a-z][a-z]*\)  *[A-Z].*/\1/p'
}

# "  -i, --image IMAGE  ..." of the help of a verb
_agent_sandbox_options() {
	agent-sandbox "$1" --help 2>/dev/null | sed -n 's/^  \(-[a-z], \)\{0,1\}\(--[a-z-]*\).*/\2/p'
	echo --help
}

_agent_sandbox_ids() {
	agent-sandbox ls -q 2>/dev/null | grep -xE 'sb_[0-9a-f]{16}'
}

_agent_sandbox_snapshots() {
	agent-sandbox snapshots -q 2>/dev/null | grep -xE 'snap_[0-9a-f]{16}'
}

# SANDBOX:PATH: names in the folder of the path. They are those of somebody else: what a shell could
# take for more than letters is left out.
_agent_sandbox_paths() {
	local sandbox=${1%%:*} path=${1#*:} folder="" name
	case $path in */*) folder=${path%/*}/ ;; esac
	agent-sandbox files -q "$sandbox:$folder" 2>/dev/null | LC_ALL=C grep -axE '([A-Za-z0-9_.,+@%=-]|[^ -~])+' |
		while IFS= read -r name; do printf '%s\n' "$sandbox:$folder$name"; done
}

_agent_sandbox() {
	local line=${COMP_LINE:0:COMP_POINT} cur verb="" word n=0 list=""
	local -a words
	read -ra words <<<"$line"
	case $line in
	*[[:blank:]]) cur="" ;;
	*) cur=${words[-1]} && unset 'words[-1]' ;;
	esac
	for word in "${words[@]:1}"; do
		case $word in
		-*) ;;
		*) if [ -z "$verb" ]; then verb=$word; else n=$((n + 1)); fi ;;
		esac
	done
	case $verb:$n:$cur in
	:*:-*) list=$(printf '%s\n' --help --version --url --key-file --cacert --cert --cert-key --json) ;;
	:*) list=$(_agent_sandbox_verbs) ;;
	exec:[1-9]*) return ;;
	*:*:-*) list=$(_agent_sandbox_options "$verb") ;;
	keys:0:*) list=$(printf '%s\n' list revoke) ;;
	audit:0:*) list=$(printf '%s\n' verify tail show) ;;
	audit:*) compopt -o default ;;
	keys:1:*) list=$(agent-sandbox keys list -q 2>/dev/null) ;;
	help:0:*) list=$(_agent_sandbox_verbs) ;;
	fork:0:* | rollback:1:* | show:*:sn* | rm:*:sn*) list=$(_agent_sandbox_snapshots) ;;
	cat:*:*:* | put:*:*:* | cp:*:*:* | files:*:*:*) list=$(_agent_sandbox_paths "$cur") ;;
	run:*) compopt -o default ;;
	cat:* | cp:* | put:*) list=$(_agent_sandbox_ids | sed 's/$/:/') && compopt -o nospace -o default ;;
	show:0:* | rm:* | exec:0:* | timeout:0:* | snapshot:0:* | snapshots:0:* | rollback:0:* | files:0:*) list=$(_agent_sandbox_ids) ;;
	esac
	# Not compgen -W, which would run what stands in a name.
	COMPREPLY=()
	while IFS= read -r word; do
		if [[ -n $word && $word == "$cur"* ]]; then COMPREPLY+=("$word"); fi
	done <<<"$list"
	# What stands before the last of the signs at which bash breaks words is not replaced; an "@" is.
	while [[ -n $cur && $COMP_WORDBREAKS != *"${cur: -1}"* ]]; do cur=${cur%?}; done
	COMPREPLY=("${COMPREPLY[@]#"${cur%@}"}")
}

complete -F _agent_sandbox agent-sandbox
