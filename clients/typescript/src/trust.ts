/** Whom a client trusts and what it shows, as texts in PEM, and what it means when TLS fails. */

import { SandboxConfigError } from "./errors.js";

export interface Tls {
  /** Certificates of authorities to trust instead of those that the runtime trusts (Deno: beside those). */
  ca?: string | undefined;
  /** A certificate to show, with those that lead to its authority, and its private key without a passphrase. */
  cert?: string | undefined;
  key?: string | undefined;
}

/** What was given, or undefined. */
export function checkTls(tls: Tls | undefined, url: string): Tls | undefined {
  if (tls === undefined || (tls.ca === undefined && tls.cert === undefined && tls.key === undefined)) return undefined;
  if (!url.startsWith("https:")) throw new SandboxConfigError(`a CA and a client certificate are for https; the server is ${url}`);
  if ((tls.cert === undefined) !== (tls.key === undefined)) {
    throw new SandboxConfigError("a client certificate and its private key are given together");
  }
  if (tls.ca !== undefined && !tls.ca.includes("CERTIFICATE-----")) throw new SandboxConfigError("the CA is not a certificate in PEM");
  if (tls.cert !== undefined && !tls.cert.includes("CERTIFICATE-----")) {
    throw new SandboxConfigError("the client certificate is not one in PEM");
  }
  if (tls.key !== undefined && !tls.key.includes("PRIVATE KEY-----")) {
    throw new SandboxConfigError("the client certificate's key is not a private key in PEM");
  }
  if (tls.key?.includes("ENCRYPTED")) {
    throw new SandboxConfigError("the client certificate's key is encrypted, for which there is no passphrase here");
  }
  return tls;
}

/** The words of Node, Bun and Deno: a code or a part of the text, and what to say, after the address and a blank. */
const REASONS: [RegExp, (where: string, why: string) => string][] = [
  [
    /CERTIFICATE_REQUIRED|ALERT_UNKNOWN_CA|ALERT_BAD_CERTIFICATE|alert (certificate|bad|unknown ca|unsupported certificate)|fatal alert: (Certificate|BadCertificate|UnknownCA|UnsupportedCertificate)/i,
    (where, why) => `${where} does not take the client certificate, or wants one (${why}): give one, or set AGENT_SANDBOX_CLIENT_CERT`,
  ],
  [
    /ALTNAME|HOSTNAME_MISMATCH|NotValidForName|not valid for name/i,
    (where, why) => `the certificate of ${where} is of another name (${why}): nothing was sent; ask for a name that is in it`,
  ],
  [
    /CERT_HAS_EXPIRED|certificate has expired|peer certificate: (certificate )?expired|certificate expired|not valid after/i,
    (where) => `the certificate of ${where} has expired: nothing was sent; its server needs a new one, if the clock here is right`,
  ],
  [
    /CERT_NOT_YET_VALID|not yet valid|NotValidYet|not valid before/i,
    (where) => `the certificate of ${where} is not valid yet: nothing was sent; check the clock here and there`,
  ],
  [
    /SELF_SIGNED|UNABLE_TO|UnknownIssuer|CERT_UNTRUSTED|CERT_SIGNATURE_FAILURE|self.signed certificate|unable to (get|verify)/i,
    (where, why) =>
      `the certificate of ${where} is not trusted (${why}): nothing was sent; give the CA file with caFile or AGENT_SANDBOX_CA_FILE`,
  ],
];

/** What was wrong with a certificate; undefined if it was something else. */
export function certificateTrouble(codes: readonly string[], text: string, where: string, why: string): string | undefined {
  const all = `${codes.join(" ")} ${text}`;
  return REASONS.find(([pattern]) => pattern.test(all))?.[1](where, why);
}
