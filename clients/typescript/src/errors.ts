import { FormError, type Decision } from "./decision.js";

/** The caller's mistake: a wrong argument, or an error of the server such as WRONGTYPE or NOPOLICY. */
export class HeadgateError extends Error {
  override name = "HeadgateError";
  /** The code of the server's error, such as `WRONGTYPE`; `CLOSED` after close; `UNAVAILABLE` if a reset was not done. */
  readonly code: string;
  /** After the server answered allow, peek or check with an error: what the failure policy decides instead. */
  decision?: Decision;
  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** A transport rejects with it if the server answered with an error. */
export class ServerError extends Error {
  override name = "ServerError";
}

/** A transport rejects with it if the command was not sent, and never will be. */
export class NotSentError extends Error {
  override name = "NotSentError";
}

/** @internal Why the server did not decide. */
export interface Failure {
  error: Error;
  /** Whether the server may have charged the call. */
  unknown: boolean;
  /** Whether the command can be sent once more. */
  again: boolean;
}

const mistakes = new Set(["ERR", "WRONGTYPE", "NOPOLICY", "IDCONFLICT", "NOHOLD"]);
// Errors with the code ERR that are nobody's mistake in a call.
const others = /^ERR (unknown command|max number of clients)/i;

/** @internal What an error of a transport means: the caller's mistake, or a failure. */
export function classify(e: unknown): HeadgateError | Failure {
  const error = e instanceof Error ? e : new Error(String(e));
  if (error instanceof NotSentError) return { error, unknown: false, again: false };
  if (error instanceof ServerError) {
    const code = /^[A-Z]+/.exec(error.message)?.[0] ?? "";
    if (mistakes.has(code) && !others.test(error.message)) return new HeadgateError(code, error.message);
    return { error, unknown: code === "UNCERTAIN", again: code === "CLUSTERDOWN" };
  }
  if (error instanceof FormError) error.message = `headgate: ${error.message}`;
  return { error, unknown: true, again: false };
}
