/**
 * The errors of the client.
 *
 * MnemoError
 * ├── SocketPathError         the system cannot use the socket path
 * ├── UnreachableError        no daemon answers on the socket
 * │   └── StartError          the daemon was started and did not come up
 * ├── SlowAnswerError         there was no answer in time
 * ├── InterruptedAnswerError  the connection ended before the answer was complete
 * ├── InvalidAnswerError      the answer is not one of this protocol
 * ├── CancelledError          the caller took the request back
 * └── RefusalError            the daemon answered with an error
 */

/** Base of all errors: `message` says what went wrong, `hint` what to do next. */
export class MnemoError extends Error {
  constructor(
    message: string,
    readonly hint: string = "",
  ) {
    super(message);
    this.name = new.target.name;
  }
}

export class SocketPathError extends MnemoError {}

export class UnreachableError extends MnemoError {}

export class StartError extends UnreachableError {}

export class SlowAnswerError extends MnemoError {}

/** The connection ended before the answer was complete; the request may or may not have been carried out. */
export class InterruptedAnswerError extends MnemoError {}

export class InvalidAnswerError extends MnemoError {}

export class CancelledError extends MnemoError {}

/** An error of the daemon, of the one shape `{"error": {"code", "message", "field"}}`. */
export class RefusalError extends MnemoError {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly field: string | null,
    message: string,
    readonly retryAfterSeconds: number | null,
  ) {
    super(message, retryAfterSeconds === null ? "" : `try again in ${retryAfterSeconds} s`);
  }
}
