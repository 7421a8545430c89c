import { parseArgs } from 'node:util';

export interface BenchOptions {
  help: boolean;
  /** Checks rather than figures: short rounds, small data. */
  quick: boolean;
  /** Names of measures; empty for all. */
  only: string[];
  rounds: number;
  /** Length of one turn of one side. */
  seconds: number;
  warmSeconds: number;
  /** HTTP connections; pgbench has its own number, as the design says. */
  connections: number;
  pgbenchClients: number;
  /** Orders of the large database. */
  orders: number;
  /** Old idempotency keys of the large database. */
  keys: number;
  /** Events that the verification is measured on. */
  events: number;
  /** Folder of another checkout, built, whose service is measured beside this one's; empty for none. */
  against: string;
  /** Seconds of the soak; 0 runs the measures instead. */
  soak: number;
  /** Throws the kept large databases away first. */
  fresh: boolean;
}

export const HELP = `Usage: npm run bench -- [options]

Measures the service against PostgreSQL itself, side by side in one run, and prints figures with their goals. Writes
bench/results/<time>.json and .svg, and latest.json and .svg.

  --only a,b        only these measures: MEASURES
  --quick           short turns and small data: checks that everything works; its figures mean nothing
  --rounds N        turns of each side (3)
  --seconds N       length of a turn (10)
  --warm N          length of the first turn of each side, which isn't counted (5)
  --connections N   HTTP connections (24)
  --clients N       pgbench clients (8)
  --orders N        orders in the large database (1000000); made in minutes, kept for the next run
  --keys N          old idempotency keys in the large database (5000000)
  --events N        events in the log that is verified (200000)
  --against DIR     instead of all that: creates, steps, reads and lists of this build beside those of the build in DIR
  --fresh           throws the kept large databases away first
  --soak N          instead of all that: N seconds at 80 % of what the service can do
  --help            this text

Run it on an idle machine: both sides share its cores, and ratios hold only when nothing else does.
`;

/** @throws TypeError for an option that isn't one, Error for a number that is none */
export function readOptions(args: string[]): BenchOptions {
  const { values } = parseArgs({
    args,
    options: {
      help: { type: 'boolean', short: 'h', default: false },
      quick: { type: 'boolean', default: false },
      only: { type: 'string', default: '' },
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      warm: { type: 'string' },
      connections: { type: 'string', default: '24' },
      clients: { type: 'string', default: '8' },
      orders: { type: 'string' },
      keys: { type: 'string' },
      events: { type: 'string' },
      against: { type: 'string', default: '' },
      soak: { type: 'string', default: '0' },
      fresh: { type: 'boolean', default: false },
    },
  });
  const { quick } = values;
  return {
    help: values.help,
    quick,
    only: values.only === '' ? [] : values.only.split(','),
    rounds: number('rounds', values.rounds ?? (quick ? '1' : '3')),
    seconds: number('seconds', values.seconds ?? (quick ? '1' : '10')),
    warmSeconds: number('warm', values.warm ?? (quick ? '0.5' : '5')),
    connections: number('connections', values.connections),
    pgbenchClients: number('clients', values.clients),
    orders: number('orders', values.orders ?? (quick ? '2000' : '1000000')),
    keys: number('keys', values.keys ?? (quick ? '10000' : '5000000')),
    events: number('events', values.events ?? (quick ? '1000' : '200000')),
    against: values.against,
    soak: number('soak', values.soak),
    fresh: values.fresh,
  };
}

function number(name: string, text: string): number {
  const value = Number(text);
  if (!Number.isFinite(value) || value < 0) throw new Error(`--${name} must be a number, not "${text}"`);
  return value;
}
