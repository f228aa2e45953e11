/** The requests and answers of /v1 that the extension uses. Answers may have further fields. */

export interface NoteView {
  readonly path: string;
  /** First and last line, counted from 1. */
  readonly lines: readonly [number, number];
  readonly dated: boolean;
}

/** Times are milliseconds since 1970 in UTC. */
export interface MemoryView {
  readonly id: string;
  readonly content: string;
  readonly kind: string;
  readonly category: string;
  readonly layer: string;
  readonly state: string;
  readonly trust: string;
  readonly source: string;
  readonly importance: number;
  readonly pinned: boolean;
  readonly tags: readonly string[];
  readonly namespace: string;
  readonly version: number;
  readonly event_at: number;
  readonly created_at: number;
  readonly speaker: string | null;
  readonly note: NoteView | null;
}

/** The sentences that answer best; `marks` are pairs of offsets in Unicode code points. */
export interface BestSentence {
  readonly text: string;
  readonly marks: ReadonlyArray<readonly [number, number]>;
  readonly line: number | null;
}

export interface RecalledMemory extends MemoryView {
  readonly score: number;
  readonly best: BestSentence | null;
  readonly was: boolean;
}

export interface RecallRequest {
  readonly query: string;
  readonly top_k?: number;
  readonly highlight?: boolean;
}

export interface RecallAnswer {
  readonly memories: readonly RecalledMemory[];
  readonly namespace: string;
  /** The time that the question names. */
  readonly time?: { readonly text: string } | null;
}

export interface SearchAnswer {
  readonly memories: readonly RecalledMemory[];
}

export interface NewMemory {
  readonly content: string;
  readonly tags?: readonly string[];
  readonly key?: string;
}

export interface RememberAnswer {
  readonly outcome: string;
  readonly memory: MemoryView;
}

export interface AskRequest {
  readonly question: string;
}

export interface AskSentence {
  readonly text: string;
  readonly ids: readonly string[];
}

export interface AskAnswer {
  readonly answer: string;
  readonly sentences: readonly AskSentence[];
  readonly abstained: boolean;
  readonly method: string;
  readonly memories: readonly RecalledMemory[];
}

export interface ContextRequest {
  readonly query: string;
  readonly top_k?: number;
}

export interface ContextAnswer {
  readonly block: string;
}

export interface ModelStatus {
  readonly name: string | null;
  readonly state: string;
  readonly reason: string | null;
}

export interface StatusAnswer {
  readonly state: "ready" | "warming" | "degraded";
  readonly reasons: readonly string[];
  readonly version: string;
  readonly memories: number;
  readonly namespaces: Readonly<Record<string, number>>;
  readonly models: Readonly<Record<string, ModelStatus>>;
  readonly data_dir: string;
  readonly socket: string;
  readonly uptime_seconds: number;
}
