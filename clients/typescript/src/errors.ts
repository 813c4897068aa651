/** A request that the server refused, as its problem document says. Branch on code. */
export class WeirError extends Error {
  override name = "WeirError";
  readonly status: number;
  /** Empty when something else than a Weir server answered. */
  readonly code: string;
  /** The parameter at fault, if there is one. */
  readonly field: string;
  /** Milliseconds that the server asks to wait. */
  readonly after: number;
  /** The problem document. */
  readonly problem: Record<string, unknown>;

  constructor(status: number, problem: Record<string, unknown>, after: number) {
    const code = String(problem["code"] ?? "");
    super(code ? `${problem["detail"]} (${code})` : `the server answered ${status}`);
    this.status = status;
    this.code = code;
    this.field = String(problem["field"] ?? "");
    this.after = after;
    this.problem = problem;
  }

  /** The same request may succeed later. */
  get temporary(): boolean {
    return this.code !== "not_fresh" && [429, 502, 503, 504].includes(this.status);
  }

  /** A Weir server says that it counted or took nothing; or something before it did not forward. */
  get tookNothing(): boolean {
    if (!this.code) return this.status < 500;
    return !["not_durable", "closed", "internal", "stopping", "client_gone"].includes(this.code);
  }
}

/** No server answered. With unsent nothing of the request left this machine. */
export class UnavailableError extends Error {
  override name = "UnavailableError";
  readonly unsent: boolean;

  constructor(message: string, unsent: boolean, cause?: unknown) {
    super(message, { cause });
    this.unsent = unsent;
  }
}
