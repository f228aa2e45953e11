/**
 * A client of the mnemo daemon for Node: HTTP/1.1 with JSON on a Unix socket, as clients/docs/http.md describes it.
 *
 * It uses Node's standard library only, and nothing of VS Code. Every request has a connection of its own: that costs a
 * fraction of a millisecond on a Unix socket, and no request is ever sent on a connection that the daemon has closed
 * meanwhile. If no daemon listens, it is started with `mnemo up`, and the request, which nobody has received, is sent.
 */

import { execFile } from "node:child_process";
import * as http from "node:http";

import {
  CancelledError,
  InterruptedAnswerError,
  InvalidAnswerError,
  MnemoError,
  RefusalError,
  SlowAnswerError,
  StartError,
  UnreachableError,
} from "./errors";
import { checkedNamespace } from "./namespace";
import { chosenSocketPath, socketPath, type Environment } from "./places";
import type {
  AskAnswer,
  AskRequest,
  ContextAnswer,
  ContextRequest,
  MemoryView,
  NewMemory,
  RecallAnswer,
  RecallRequest,
  RememberAnswer,
  SearchAnswer,
  StatusAnswer,
} from "./protocol";

/** For one answer: enough for a daemon that has just been started. */
export const TIMEOUT_MS = 30_000;
/** For the answer to a question: the daemon gives its language model 20 s. */
export const ASK_TIMEOUT_MS = 60_000;
/** For `mnemo up`, which waits 30 s for the daemon's first answer. */
export const START_TIMEOUT_MS = 45_000;
/** Of a request, the daemon's own limit: it closes the connection on a larger one, often before its answer is read. */
export const BODY_BYTES_MAX = 1024 * 1024;
/** Of an answer: far above any that the client asks for. */
export const ANSWER_BYTES_MAX = 64 * 1024 * 1024;

const INSTALL_HINT = "install mnemod, or give the whole path of the program";
const NOBODY_LISTENS = new Set(["ENOENT", "ECONNREFUSED"]);
const OFF = new Set(["0", "false", "no", "off"]);
/** Routes besides GET that change nothing: they may be sent twice. */
const REPEATABLE = new Set(["/v1/recall", "/v1/why", "/v1/context", "/v1/ask"]);

export interface ClientOptions {
  readonly environ?: Environment;
  /** Of the socket, instead of the one that the environment gives. */
  readonly socketPath?: string | undefined;
  /** Of every request; the daemon's default if undefined. */
  readonly namespace?: string | undefined;
  /** The program `mnemo`, or its path. */
  readonly command?: string | undefined;
  readonly timeoutMs?: number;
}

export interface RequestOptions {
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
  /** Start the daemon if none listens. */
  readonly mayStart?: boolean;
}

/** An answer of any status, with its headers (names in lower case). */
export interface RawAnswer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly text: string;
}

type CallOptions = Pick<RequestOptions, "signal" | "mayStart">;

export class MnemoClient {
  /** The starts that are under way, by socket. */
  private static readonly starts = new Map<string, Promise<void>>();
  readonly socketPath: string;
  private readonly environ: Environment;
  private readonly namespace: string | undefined;
  private readonly command: string;
  private readonly timeoutMs: number;
  private readonly hasChosenSocket: boolean;

  /** Throws MnemoError for a socket path or namespace that cannot be used. */
  constructor(options: ClientOptions = {}) {
    this.environ = options.environ ?? process.env;
    this.hasChosenSocket = Boolean(options.socketPath);
    this.socketPath = options.socketPath
      ? chosenSocketPath(options.socketPath, this.environ)
      : socketPath(this.environ);
    this.namespace = options.namespace ? checkedNamespace(options.namespace, "the option") : undefined;
    this.command = options.command || "mnemo";
    this.timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
  }

  recall(request: RecallRequest, options?: CallOptions): Promise<RecallAnswer> {
    return this.call("POST", "/v1/recall", { ...options, body: request });
  }

  remember(memory: NewMemory, options?: CallOptions): Promise<RememberAnswer> {
    return this.call("POST", "/v1/memories", { ...options, body: memory });
  }

  ask(request: AskRequest, options?: CallOptions): Promise<AskAnswer> {
    const timeoutMs = Math.max(this.timeoutMs, ASK_TIMEOUT_MS);
    return this.call("POST", "/v1/ask", { ...options, body: request, timeoutMs });
  }

  context(request: ContextRequest, options?: CallOptions): Promise<ContextAnswer> {
    return this.call("POST", "/v1/context", { ...options, body: request });
  }

  recent(limit: number, options?: CallOptions): Promise<SearchAnswer> {
    return this.call("GET", `/v1/recent?limit=${limit}`, options);
  }

  memory(id: string, options?: CallOptions): Promise<MemoryView> {
    return this.call("GET", `/v1/memories/${encodeURIComponent(id)}`, options);
  }

  status(options?: CallOptions): Promise<StatusAnswer> {
    return this.call("GET", "/v1/status", options);
  }

  /** Send a request and return its answer as a JSON value. Throws MnemoError, RefusalError for a status over 399. */
  async call<T>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
    const answer = await this.request(method, path, options);
    let value: unknown;
    try {
      value = JSON.parse(answer.text);
    } catch {
      throw new InvalidAnswerError(`the answer to ${method} ${path} is not JSON`, this.notADaemonHint());
    }
    if (answer.status >= 400) {
      throw refusal(answer, value);
    }
    return value as T;
  }

  /**
   * Send a request and return its answer, whatever its status is. Throws MnemoError.
   *
   * A daemon that does not run is started once. A request that changes nothing is repeated once if the connection ends
   * before the answer is complete, as it does when the daemon is restarted.
   */
  async request(method: string, path: string, options: RequestOptions = {}): Promise<RawAnswer> {
    let mayStart = options.mayStart ?? true;
    let mayRepeat = method === "GET" || REPEATABLE.has(path);
    for (;;) {
      try {
        return await this.exchange(method, path, options);
      } catch (error) {
        if (error instanceof UnreachableError && mayStart) {
          mayStart = false;
          await this.start(error);
        } else if (error instanceof InterruptedAnswerError && mayRepeat) {
          mayRepeat = false;
        } else {
          throw error;
        }
      }
    }
  }

  /** Start the daemon with `mnemo up`; all who wait for it share one start. Throws UnreachableError. */
  private start(cause: UnreachableError): Promise<void> {
    if (OFF.has((this.environ["MNEMO_AUTOSTART"] ?? "").toLowerCase())) {
      return Promise.reject(new UnreachableError(cause.message, "MNEMO_AUTOSTART is off; start it with: mnemo up"));
    }
    const underWay = MnemoClient.starts.get(this.socketPath);
    if (underWay !== undefined) {
      return underWay;
    }
    const started = this.runUp().finally(() => MnemoClient.starts.delete(this.socketPath));
    MnemoClient.starts.set(this.socketPath, started);
    return started;
  }

  private runUp(): Promise<void> {
    const environ = { ...this.environ, ...(this.hasChosenSocket ? { MNEMO_SOCKET: this.socketPath } : {}) };
    return new Promise((resolve, reject) => {
      execFile(this.command, ["up"], { env: environ, timeout: START_TIMEOUT_MS }, (error, _stdout, stderr) => {
        if (error === null) {
          resolve();
        } else if (error.code === "ENOENT") {
          reject(new StartError(`no daemon runs, and there is no program ${this.command} to start it`, INSTALL_HINT));
        } else {
          const output = stderr.replace(/\s+/gu, " ").trim() || error.message;
          reject(new StartError(`the daemon could not be started: ${output}`, "find out why with: mnemo doctor"));
        }
      });
    });
  }

  /** Send one request on a connection of its own and read the answer. Throws MnemoError. */
  private exchange(method: string, path: string, options: RequestOptions): Promise<RawAnswer> {
    const body = options.body === undefined ? undefined : Buffer.from(JSON.stringify(options.body));
    if (body !== undefined && body.length > BODY_BYTES_MAX) {
      const message = `the request has ${body.length} bytes; the daemon takes ${BODY_BYTES_MAX}`;
      return Promise.reject(new MnemoError(message, "send a smaller text"));
    }
    const timeoutMs = options.timeoutMs ?? this.timeoutMs;
    return new Promise((resolve, reject) => {
      let isConnected = false;
      const request = http.request({
        socketPath: this.socketPath,
        method,
        path,
        agent: false,
        headers: this.headers(body, options.headers),
        ...(options.signal === undefined ? {} : { signal: options.signal }),
      });
      const slow = new SlowAnswerError(
        `the daemon did not answer within ${timeoutMs / 1000} s`,
        "see what it is doing: mnemo status",
      );
      const timer = setTimeout(() => request.destroy(slow), timeoutMs);
      const fail = (error: NodeJS.ErrnoException): void => {
        clearTimeout(timer);
        request.destroy();
        reject(this.translated(error, isConnected));
      };
      request.on("socket", (socket) => {
        socket.once("connect", () => {
          isConnected = true;
        });
      });
      request.on("error", fail);
      request.on("response", (response) => {
        const pieces: Buffer[] = [];
        let size = 0;
        response.on("error", fail);
        response.on("data", (piece: Buffer) => {
          pieces.push(piece);
          size += piece.length;
          if (size > ANSWER_BYTES_MAX) {
            fail(new InvalidAnswerError(`the answer to ${method} ${path} has over ${ANSWER_BYTES_MAX} bytes`));
          }
        });
        response.on("end", () => {
          clearTimeout(timer);
          const text = Buffer.concat(pieces).toString("utf8");
          resolve({ status: response.statusCode ?? 0, headers: response.headers, text });
        });
      });
      request.end(body);
    });
  }

  private headers(
    body: Buffer | undefined,
    extra: Readonly<Record<string, string>> | undefined,
  ): Record<string, string | number> {
    return {
      Accept: "application/json",
      "X-Mnemo-Door": "cli",
      ...(body === undefined ? {} : { "Content-Type": "application/json", "Content-Length": body.length }),
      ...(this.namespace === undefined ? {} : { "X-Namespace": headerText(this.namespace) }),
      ...extra,
    };
  }

  /** Return the client's own error for one of Node's. */
  private translated(error: NodeJS.ErrnoException, isConnected: boolean): MnemoError {
    const code = error.code ?? "";
    if (error instanceof MnemoError) {
      return error;
    }
    if (error.name === "AbortError") {
      return new CancelledError("the request was cancelled");
    }
    if (code.startsWith("HPE_")) {
      return new InvalidAnswerError(`the answer is not HTTP: ${error.message}`, this.notADaemonHint());
    }
    if (isConnected) {
      return new InterruptedAnswerError(
        "the connection ended before the daemon answered; the request may or may not have been carried out",
        "see if the daemon runs: mnemo status",
      );
    }
    if (NOBODY_LISTENS.has(code)) {
      return new UnreachableError(`no daemon listens on ${this.socketPath}`, "start it with: mnemo up");
    }
    return new MnemoError(`${this.socketPath} cannot be used: ${error.message}`, "its owner is the only one who may");
  }

  private notADaemonHint(): string {
    return `the process that listens on ${this.socketPath} is not a mnemo daemon`;
  }
}

/** Return the bytes of the text in UTF-8 as Node takes them for a header. */
function headerText(text: string): string {
  return Buffer.from(text, "utf8").toString("latin1");
}

function refusal(answer: RawAnswer, value: unknown): RefusalError {
  const error = (value as { error?: { code?: unknown; message?: unknown; field?: unknown } } | null)?.error;
  const seconds = Number(answer.headers["retry-after"]);
  return new RefusalError(
    answer.status,
    typeof error?.code === "string" ? error.code : "error",
    typeof error?.field === "string" ? error.field : null,
    typeof error?.message === "string" ? error.message : `the daemon answered ${answer.status}`,
    seconds > 0 ? seconds : null,
  );
}
