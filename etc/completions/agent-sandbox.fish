# Completion of agent-sandbox(1) for fish. Verbs and options come from the command's own help, ids and
# paths from the server.

function __agent_sandbox_words
    # the words before the one that is typed, without options: the first is the verb
    set -l words (commandline -opc)
    string match -v -- '-*' $words[2..-1]
end

function __agent_sandbox_verbs
    agent-sandbox --help 2>/dev/null | string match -rg '^  ([a-z]+ +[A-Z].*)' | string replace -r ' +' \t
end

function __agent_sandbox_options
    set -l verb (__agent_sandbox_words)[1]
    agent-sandbox $verb --help 2>/dev/null | string replace -rf '^  (?:-[a-z], )?(--[a-z-]+)(?: [A-Z=]+)? +(.*)' '$1\t$2'
    echo --help\tsay how the verb is used
end

function __agent_sandbox_ids
    set -l verb ls
    test $argv[1] = snap; and set verb snapshots
    agent-sandbox $verb -q 2>/dev/null | string match -r "^$argv[1]_[0-9a-f]{16}\$"
end

# Names are those of somebody else: what a shell could take for more than letters is left out.
function __agent_sandbox_paths
    set -l word (commandline -ct)
    set -l sandbox (string split -m1 : -- $word)[1]
    set -l folder (string match -rg ':(.*/)' -- $word)
    for name in (agent-sandbox files -q "$sandbox:$folder" 2>/dev/null | string match -r '^(?:[A-Za-z0-9_.,+@%=-]|[^ -~])+$')
        echo -- "$sandbox:$folder$name"
    end
end

function __agent_sandbox_arguments
    set -l words (__agent_sandbox_words)
    set -l n (count $words)
    set -l word (commandline -ct)
    switch "$words[1]"
        case help
            __agent_sandbox_verbs
        case audit
            if test $n -eq 1
                printf '%s\n' verify tail show
            else
                __fish_complete_path $word
            end
        case keys
            if test $n -eq 1
                printf '%s\n' list revoke
            else
                agent-sandbox keys list -q 2>/dev/null
            end
        case fork
            __agent_sandbox_ids snap
        case rollback
            if test $n -eq 1
                __agent_sandbox_ids sb
            else
                __agent_sandbox_ids snap
            end
        case show rm
            __agent_sandbox_ids sb
            __agent_sandbox_ids snap
        case exec timeout snapshot snapshots
            test $n -eq 1; and __agent_sandbox_ids sb
        case cat files cp put
            if string match -q '*:*' -- $word
                __agent_sandbox_paths
            else
                __agent_sandbox_ids sb | string replace -r '$' :
            end
    end
end

complete -c agent-sandbox -f
complete -c agent-sandbox -n 'test (count (__agent_sandbox_words)) -eq 0' -a '(__agent_sandbox_verbs)'
complete -c agent-sandbox -n 'test (count (__agent_sandbox_words)) -gt 0' -a '(__agent_sandbox_arguments)'
complete -c agent-sandbox -n 'test (count (__agent_sandbox_words)) -gt 0; and string match -q -- "-*" (commandline -ct)' -a '(__agent_sandbox_options)'
complete -c agent-sandbox -n 'contains -- (__agent_sandbox_words)[1] cp put run' -F
