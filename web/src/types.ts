// What the server answers: the types of package api, as far as pages read them.

/** Known is what is known of a number: without upper it may be any from lower up. */
export interface Known { lower: number; estimate: number; upper: number | null }
export interface Bounds extends Known { exact: boolean }
export interface Late { node: string; since: number }
export interface Freshness { as_of: number; late?: Late[] }
export interface Alarm { code: string; message: string; refusing?: boolean }
export interface Line { from: number; step_s: number; to: number; estimate: number[]; lower?: number[]; upper?: (number | null)[] }

export interface KeyView extends Bounds { key: string; before: Bounds; line: number[] }
export interface Overview extends Freshness {
  window_s: number; at: number; keys: KeyView[]; alarms?: Alarm[];
  all?: { per_second: Known; hits: Bounds; before: Bounds; keys: number; line: Line };
}

/** Distinct is a number of ids; with an error its bounds are estimates too. */
export interface Distinct extends Known { error: number }
export interface Site extends Freshness {
  site?: string; sites?: string[]; public?: boolean; from: number; to: number; unit?: string; tz?: string; now?: Distinct; visitors?: Distinct; views: Bounds; filtered: Bounds;
  line: Series["points"]; lists: { class: string; names: (Bounds & { key: string })[] }[];
}

export interface KeyWindow extends Bounds { window_s: number; before: Bounds }
export interface KeyAnswer extends Freshness { key: string; window_s: number; at: number; counts: KeyWindow[]; line: Line; before: number[]; with?: { key: string; line: number[] }[]; regions?: KeyRegion[] }
export interface KeyRegion extends Freshness { region: string; counts: Bounds[] }
export interface Series extends Freshness { from: number; to: number; step_s: number; source?: string; points: (Bounds & { at: number; start?: number })[] }
export interface Keys { keys: string[]; next?: string }

export interface Policy {
  name: string; keys: string; by?: string; limit: number; per_s: number; burst: number; algorithm: string; mode: string; where: string;
  wait_s?: number; cost?: string; deny_for_s?: number; /** of one that was put by API */ version?: number; calendar?: string; count_if?: string; reserved?: Reserved; overrides: number; allowed: Bounds; denied: Bounds; shadow_denied: Bounds;
}
/** Reserved is what open reservations have taken. */
export interface Reserved { reservations: number; n: number }
/** AtOnce is a limit of how many permits are held at once. */
export interface AtOnce { name: string; keys: string; by?: string; max: number; ttl_s: number; held: number; held_keys: number }
export interface LimitKey { key: string; used: number; burst: number; remaining: number; share: number; reset_s: number; banned_s?: number; reserved?: Reserved }
export interface DeniedKey { limit: string; key: string; denied: number; since: number; last: number; retry_after_s: number; /** the ID of the newest */ denial?: string }
export interface Denial {
  id: string; node?: string; /** of the first of times */ at: number; times: number; last: number; more?: number; freshness: { as_of: number; late?: string[] };
  limits: {
    name: string; inline?: boolean; asked: string; key: string; keys?: string; by?: string; line?: number; changed?: boolean; where: string; away?: string; banned?: boolean; no_part?: boolean;
    limit: number; per_s: number; burst: number; algorithm: string; n: number; used: number; remaining: number; retry_at?: number; reset_at: number;
    admissions: { at: number; n: number }[]; doubt_s: number;
  }[];
}
export interface Limits extends Freshness {
  spend?: { key: string; line: Line }[]; denied_keys?: DeniedKey[]; may_change?: boolean;
  window_s: number; at: number; limits: Policy[]; at_once?: AtOnce[]; more?: number; of?: string; keys: LimitKey[];
  file?: { path: string; loaded_at: number; error?: string };
  lines: { name: string; allowed: Line; denied: Line; shadow_denied: Line }[];
}

export interface LogEvent { number: number; kind: "hit" | "denial"; at: number; of?: number; key: string; n: number; limit?: string; denial?: string }
export interface Log { since: number; at: number; node?: string; events: LogEvent[]; hits: { shown: number; one_in: number }; denials: { shown: number; one_in: number } }

export interface ClusterNode {
  node: string; epoch: number; self?: boolean; as_of: number; lag_s: number; heard: number; held: number;
  left?: boolean; late?: boolean; why?: string; skew_s?: number; skew_error_s?: number;
}
export interface Region { region: string; self?: boolean; known: boolean; gone?: boolean; base?: boolean; epoch: number; as_of: number; every_s: number; heard_s: number; lag_s: number; late?: boolean; late_nodes?: Late[]; /** how keys begin that it tells; absent: all */ keys?: string[] }
export interface RegionLink { region: string; url: string; up: boolean; why?: string; for_s: number; bytes_per_s: number }
export interface RegionPull { region: string; now: boolean; bytes_per_s: number; behind: number }
export interface Regions { region: string; now: number; /** this node has the links */ owner: boolean; regions: Region[]; links: RegionLink[]; pulls: RegionPull[]; feeds: number }
export interface Nodes {
  regions?: Regions;
  cluster: Freshness & {
    mode: string; cluster?: string; node?: string; now: number; nodes: ClusterNode[]; size: number; leader?: string; snapshots_by?: string;
    partitions: number; replicas?: number; unheld?: number; alarms: Alarm[]; problems: string[];
    routes: { node: string; addr: string; rtt_s: number; pending_bytes: number }[];
    journal?: { first: number; last: number; bytes: number; divergence: number; holes: number; repaired: number; lossy_findings: number };
  };
  stats: {
    version: string; uptime_s: number; hits: number; late: number; too_late: number; too_far_ahead: number; keys: number; evicted_keys: number;
    expired_keys: number; memory_bytes: number; memory_budget_bytes: number; limit_states: number; limit_bytes: number; durable: boolean; waiting: number;
    journal?: { flushes: number; bytes: number; flush_s: number; failures: number; failing: boolean; snapshot_rounds: number; lossy_findings: number };
  };
}
