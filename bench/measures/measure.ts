import type { BenchOptions } from '../options.js';
import type { Row } from '../report/row.js';
import type { BenchServer } from '../world/server.js';

/** What a measure has at hand. */
export interface Bench {
  options: BenchOptions;
  server: BenchServer;
  pgbench: string | null;
  /** Shows what happens now. */
  say(text: string): void;
}

/** One or more rows of the table, measured together. */
export interface Measure {
  name: string;
  run(bench: Bench): Promise<Row[]>;
}
