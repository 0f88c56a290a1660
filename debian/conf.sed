# The sample configuration as the package has it: keys are in a file beside it.
s|^# Settings of agent-sandbox:.*|# Settings of agent-sandbox.service; "systemctl restart agent-sandbox" takes them up.|
s|^# Required\. One or more keys.*|# Keys, as digests; the first one: agent-sandbox keygen --name first --file /etc/agent-sandbox/keys|
s|^AGENT_SANDBOX_API_KEYS=$|AGENT_SANDBOX_KEYS_FILE=/etc/agent-sandbox/keys|
