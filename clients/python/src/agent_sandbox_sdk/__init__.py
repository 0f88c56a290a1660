"""Python client for agent-sandbox: disposable sandboxes for code that an agent writes.

    from agent_sandbox_sdk import SandboxClient

    with SandboxClient() as client, client.create() as sandbox:
        print(sandbox.exec("python3 -c 'print(6 * 7)'").stdout)

and ``client.run("print(6 * 7)")`` runs one program in a sandbox of its own. AsyncSandboxClient is the same for asyncio;
AgentboxClient has the names of an older system.
"""

from __future__ import annotations

from ._errors import (
    SandboxAnswerError,
    SandboxAPIError,
    SandboxAuthError,
    SandboxConfigError,
    SandboxConnectionLostError,
    SandboxInterruptedError,
    SandboxLimitError,
    SandboxNotFoundError,
    SandboxRedirectError,
    SandboxTimeoutError,
    SandboxUnreachableError,
)
from ._models import ExecDetail, ExecEvent, ExecResult, FileInfo, RunResult, SnapshotInfo
from .agentbox import AgentboxClient, AgentboxError
from .aio import AsyncExecStream, AsyncSandbox, AsyncSandboxClient, PendingSandbox
from .client import DEFAULT_URL, ExecStream, Sandbox, SandboxClient

__version__ = "0.1.0"

__all__ = [
    "DEFAULT_URL",
    "AgentboxClient",
    "AgentboxError",
    "AsyncExecStream",
    "AsyncSandbox",
    "AsyncSandboxClient",
    "ExecDetail",
    "ExecEvent",
    "ExecResult",
    "ExecStream",
    "FileInfo",
    "PendingSandbox",
    "RunResult",
    "Sandbox",
    "SandboxAPIError",
    "SandboxAnswerError",
    "SandboxAuthError",
    "SandboxClient",
    "SandboxConfigError",
    "SandboxConnectionLostError",
    "SandboxInterruptedError",
    "SandboxLimitError",
    "SandboxNotFoundError",
    "SandboxRedirectError",
    "SandboxTimeoutError",
    "SandboxUnreachableError",
    "SnapshotInfo",
]
