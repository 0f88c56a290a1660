"""Python client for agent-sandbox: disposable sandboxes for code that an agent writes.

    from agent_sandbox_sdk import SandboxClient

    with SandboxClient() as client, client.create() as sandbox:
        print(sandbox.exec("python3 -c 'print(6 * 7)'").stdout)

AsyncSandboxClient is the same for asyncio, AgentboxClient for one-shot runs.
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
from ._models import ExecDetail, ExecEvent, ExecResult, FileInfo, SnapshotInfo
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
