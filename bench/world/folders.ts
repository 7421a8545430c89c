import { join } from 'node:path';

export const ROOT = join(import.meta.dirname, '../..');
/** The benchmark's PostgreSQL, kept between runs for the sake of the large databases. */
export const BENCH_FOLDER = join(ROOT, '.waybill/bench');
export const RESULTS_FOLDER = join(ROOT, 'bench/results');
