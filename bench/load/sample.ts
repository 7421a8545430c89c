/** What one turn of one side came to. */
export interface Sample {
  count: number;
  perSecond: number;
  /** CPU microseconds of each group of processes, for each of `count`. */
  cpu: { service: number; postgres: number; load: number };
  /** Milliseconds, where the driver tells them. */
  latency?: { p50: number; p99: number };
}
