import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import { IDEMPOTENCY_OUTCOMES, type IdempotencyOutcome } from './idempotency-outcome.js';

/** Seconds: from what a warm read takes to what the statement timeout allows. */
const DURATION_BUCKETS = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20];

/** A request that has been answered. */
export interface ObservedRequest {
  method: string;
  /** The route's pattern, never the concrete address: that would make a time series for each order. */
  route: string;
  status: number;
  seconds: number;
  idempotency: IdempotencyOutcome | undefined;
  problem: string | undefined;
}

/**
 * The metrics of one process for Prometheus. No label holds a tenant, a user or an id: their number has no bound, and
 * whoever reads the metrics should learn nothing of the tenants.
 */
export class ServiceMetrics {
  readonly registry = new Registry();
  private readonly requests: Counter<'method' | 'route' | 'status'>;
  private readonly durations: Histogram<'method' | 'route'>;
  private readonly inFlight: Gauge;
  private readonly problems: Counter<'code'>;
  private readonly outcomes: Counter<'outcome'>;

  constructor(version: string) {
    const registers = [this.registry];
    collectDefaultMetrics({ register: this.registry });
    new Gauge({
      name: 'waybill_build_info',
      help: 'Always 1; the labels say what is running.',
      labelNames: ['version', 'node'],
      registers,
    }).set({ version, node: process.version }, 1);
    this.requests = new Counter({
      name: 'waybill_http_requests_total',
      help: 'Requests answered, by route pattern and status.',
      labelNames: ['method', 'route', 'status'],
      registers,
    });
    this.durations = new Histogram({
      name: 'waybill_http_request_duration_seconds',
      help: 'From the headers of a request to the last byte of its answer.',
      labelNames: ['method', 'route'],
      buckets: DURATION_BUCKETS,
      registers,
    });
    this.inFlight = new Gauge({
      name: 'waybill_http_requests_in_flight',
      help: 'Requests that are being answered now.',
      registers,
    });
    this.problems = new Counter({
      name: 'waybill_problems_total',
      help: 'Problem documents answered, by code. Replays and refusals that a key keeps are not among them.',
      labelNames: ['code'],
      registers,
    });
    this.outcomes = new Counter({
      name: 'waybill_idempotency_outcomes_total',
      help: 'Requests with an idempotency key, or without one where it is required, by what became of them.',
      labelNames: ['outcome'],
      registers,
    });
    // A rate over a series that only just appeared misses its first increase.
    for (const outcome of IDEMPOTENCY_OUTCOMES) this.outcomes.inc({ outcome }, 0);
    for (const code of ['internal-error', 'unavailable', 'rate-limited']) this.problems.inc({ code }, 0);
  }

  begin(): void {
    this.inFlight.inc();
  }

  end({ method, route, status, seconds, idempotency, problem }: ObservedRequest): void {
    this.inFlight.dec();
    this.requests.inc({ method, route, status });
    this.durations.observe({ method, route }, seconds);
    if (problem) this.problems.inc({ code: problem });
    if (idempotency) this.outcomes.inc({ outcome: idempotency });
  }

  /** Adds a number that is read when it is asked for; NaN, which stands for "unknown", when that fails. */
  gauge(name: string, help: string, read: () => Promise<number> | number): void {
    const gauge = new Gauge({
      name,
      help,
      registers: [],
      async collect() {
        this.set(await Promise.resolve(read()).catch(() => Number.NaN));
      },
    });
    this.registry.registerMetric(gauge);
  }

  /** Adds a number that only grows, kept by somebody else and read when it is asked for. */
  counter(name: string, help: string, read: () => number): void {
    this.counters(name, help, [], () => [{ labels: {}, value: read() }]);
  }

  /** The same for each of some labels. */
  counters<Label extends string>(
    name: string,
    help: string,
    labelNames: readonly Label[],
    read: () => Iterable<{ labels: Partial<Record<Label, string>>; value: number }>,
  ): void {
    const counter = new Counter<Label>({
      name,
      help,
      labelNames,
      registers: [],
      collect() {
        this.reset();
        for (const { labels, value } of read()) this.inc(labels, value);
      },
    });
    this.registry.registerMetric(counter);
  }
}
