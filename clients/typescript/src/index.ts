/** Client of agent-sandbox for every runtime that has `fetch`. */

export { AgentboxClient, type RunOptions } from "./agentbox.js";
export type { ByteSource, Content, Progress } from "./body.js";
export { SandboxClient, type ClientOptions } from "./client.js";
export {
  SandboxAPIError,
  SandboxAnswerError,
  SandboxAuthError,
  SandboxConfigError,
  SandboxConnectionLostError,
  SandboxDecodeError,
  SandboxError,
  SandboxInterruptedError,
  SandboxLimitError,
  SandboxNotFoundError,
  SandboxRedirectError,
  SandboxTimeoutError,
  SandboxUnreachableError,
} from "./errors.js";
export type { Fetch } from "./http.js";
export type {
  CallOptions,
  CreateOptions,
  ExecOptions,
  ExecStreamOptions,
  ForkOptions,
  ProgramOptions,
  ReadOptions,
  ReadTextOptions,
  TransferOptions,
  UploadOptions,
  WriteOptions,
} from "./options.js";
export { Sandbox } from "./sandbox.js";
export type { Tls } from "./trust.js";
export type {
  Bytes,
  ExecDetail,
  ExecEvent,
  ExecResult,
  ExitEvent,
  FileInfo,
  Health,
  OutputEvent,
  ProgramResult,
  RunResult,
  SandboxData,
  ShortHealth,
  SnapshotInfo,
} from "./types.js";
