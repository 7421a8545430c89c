import { mkdtemp, rm } from 'node:fs/promises';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { Client } from 'pg';
import { createApp } from '../../src/app.js';
import { loadConfig } from '../../src/config.js';
import { bootstrapCluster, databaseUrl, type RoleUrls } from '../../src/database/bootstrap.js';
import {
  embeddedBinaries,
  type EmbeddedMajor,
  type EmbeddedServer,
  rolePasswords,
  startEmbedded,
} from '../../src/database/embedded/index.js';
import { migrate } from '../../src/database/migrate.js';
import { makeDemoTenants } from '../../src/identity/index.js';
import { type OrderFilter, type OrderPage, pageStatement } from '../../src/orders/order-page.js';
import { generateOrders } from '../support/generate-orders.js';
import { describePlan, explain, slowNodes } from '../support/plans.js';

const HELP = `Usage: node test/scale/list-at-scale.mjs [--orders N] [--small N] [--runs N] [--postgres 15|18]

Measures the list of orders over HTTP at N orders against a small number of them: page 1, page 1,000 by cursor, and the
usual filters, alternating between the two, and prints median, ratio, and the plan as the app role. Takes some minutes,
most of them to make the orders. It starts a PostgreSQL of its own and removes it afterwards.

  --orders N        orders in the large database (1000000)
  --small N         orders in the small one (10000)
  --runs N          measured requests of each page on each side (200)
  --postgres N      version of the embedded server: 15 or 18 (18)
`;

const PAGE = 10;
const PAGES = 1_000;
const CHUNK = 20_000;
/** A plan that reads this many rows for one page, or sorts them, is reported. */
const MANY_ROWS = 2_000;

interface Side {
  orders: number;
  urls: RoleUrls;
  app: NestFastifyApplication;
  baseUrl: string;
  key: string;
}

interface Shape {
  name: string;
  query: string;
  page: Partial<Omit<OrderPage, 'filter'>> & { filter: OrderFilter };
}

const SHAPES: Shape[] = [
  { name: 'page 1', query: '', page: { filter: {} } },
  { name: 'page 1 by time changed', query: '&sort=-updatedAt', page: { filter: {}, sort: '-updatedAt' } },
  { name: 'a rare state', query: '&status=confirmed', page: { filter: { status: ['confirmed'] } } },
  { name: 'a common state', query: '&status=delivered', page: { filter: { status: ['delivered'] } } },
  { name: 'two states', query: '&status=pending,shipped', page: { filter: { status: ['pending', 'shipped'] } } },
  { name: 'a channel', query: '&channel=phone', page: { filter: { channel: 'phone' } } },
  { name: 'a customer', query: '&customerRef=c-7919', page: { filter: { customerRef: 'c-7919' } } },
  { name: 'a number prefix', query: '&q=C4CA', page: { filter: { prefix: 'C4CA' } } },
  { name: 'a prefix of all', query: '&q=ref-', page: { filter: { prefix: 'ref-' } } },
  { name: 'a prefix of the oldest', query: '&q=ref-00000', page: { filter: { prefix: 'ref-00000' } } },
  { name: 'a reference prefix', query: '&q=ref-00000012', page: { filter: { prefix: 'ref-00000012' } } },
];

export async function main(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      orders: { type: 'string', default: '1000000' },
      small: { type: 'string', default: '10000' },
      runs: { type: 'string', default: '200' },
      postgres: { type: 'string', default: '18' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  const [large, small, runs] = [values.orders, values.small, values.runs].map(Number) as [number, number, number];
  if (values.help || ![large, small, runs].every((number) => Number.isSafeInteger(number) && number > 0)) {
    console.log(HELP.trimEnd());
    return values.help ? 0 : 1;
  }
  if (small < PAGE * PAGES)
    console.log(`With ${small} orders there is no page ${PAGES} of ${PAGE}; the last one is taken.`);
  const folder = await mkdtemp(join(tmpdir(), 'waybill-scale-'));
  // Durable defaults, as the service has them.
  const server = await startEmbedded({
    dataDir: join(folder, 'pg'),
    binaries: embeddedBinaries(values.postgres as EmbeddedMajor),
    log: () => undefined,
  });
  const sides: Side[] = [];
  try {
    console.log(
      `PostgreSQL ${server.serverVersion}, Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model ?? '?'}`,
    );
    for (const orders of [small, large]) sides.push(await prepare(server, join(folder, 'pg'), orders));
    await report(sides as [Side, Side], runs);
    return 0;
  } finally {
    for (const { app } of sides) await app.close();
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

async function prepare(server: EmbeddedServer, folder: string, orders: number): Promise<Side> {
  const name = `scale_${orders}`;
  const urls = await bootstrapCluster(server.superuserUrl, name, await rolePasswords(folder));
  await migrate(urls.ownerUrl);
  const [demo] = await makeDemoTenants(urls.ownerUrl);
  await fill(databaseUrl(server.superuserUrl, name).href, orders);
  const config = { ...loadConfig({ LOG_LEVEL: 'fatal', DATABASE_POOL_SIZE: '2' }), database: urls };
  const app = await createApp(config);
  await app.listen(0, '127.0.0.1');
  return { orders, urls, app, baseUrl: await app.getUrl(), key: demo?.keys.viewer ?? '' };
}

async function fill(superuserUrl: string, orders: number): Promise<void> {
  const client = new Client({ connectionString: superuserUrl });
  await client.connect();
  const started = performance.now();
  const progress = (text: string): void => {
    if (process.stdout.isTTY) process.stdout.write(`\r\u001b[K${text}`);
    else console.log(text);
  };
  try {
    for (let from = 1; from <= orders; from += CHUNK) {
      const to = Math.min(from + CHUNK - 1, orders);
      // The pages that are measured show the newest orders; those have lines.
      await generateOrders(client, 1, {
        from,
        to,
        total: orders,
        withLinesFrom: Math.max(1, orders - 2 * PAGE * PAGES),
      });
      if (to === orders || (from - 1) % (5 * CHUNK) === 0) {
        const seconds = (performance.now() - started) / 1000;
        progress(
          `${to.toLocaleString('en-US')} of ${orders.toLocaleString('en-US')} orders made in ${seconds.toFixed(0)} s`,
        );
      }
    }
    await client.query('VACUUM (ANALYZE, PARALLEL 0) waybill.orders');
    await client.query('VACUUM (ANALYZE, PARALLEL 0) waybill.order_lines');
    if (process.stdout.isTTY) console.log('');
  } finally {
    await client.end();
  }
}

async function report(sides: readonly [Side, Side], runs: number): Promise<void> {
  const [small, large] = sides;
  const queries: { name: string; paths: [string, string]; page?: Shape['page'] }[] = SHAPES.map(
    ({ name, query, page }) => ({
      name,
      page,
      paths: [`/v1/orders?limit=${PAGE}${query}`, `/v1/orders?limit=${PAGE}${query}`],
    }),
  );
  const late = await Promise.all([latePage(small), latePage(large)]);
  queries.splice(1, 0, { name: `page ${PAGES} by cursor`, paths: late, page: undefined });

  console.log(
    `\nMedian of ${runs} requests each, alternating, in ms (lower and upper quartile); ${PAGE} orders a page`,
  );
  console.log(`${'list'.padEnd(24)}${`${small.orders} orders`.padEnd(26)}${`${large.orders} orders`.padEnd(26)}ratio`);
  for (const { name, paths } of queries) {
    const times: [number[], number[]] = [[], []];
    for (let run = -20; run < runs; run += 1) {
      for (const [index, side] of sides.entries()) {
        const took = await timeOf(side, paths[index] ?? '');
        if (run >= 0) times[index]?.push(took);
      }
    }
    const [a, b] = times.map(quartiles) as [Quartiles, Quartiles];
    console.log(
      `${name.padEnd(24)}${describe(a).padEnd(26)}${describe(b).padEnd(26)}${(b.median / a.median).toFixed(2)}`,
    );
  }
  await reportPlans(large);
}

async function timeOf(side: Side, path: string): Promise<number> {
  const started = performance.now();
  const response = await fetch(side.baseUrl + path, { headers: { authorization: `Bearer ${side.key}` } });
  const body = (await response.json()) as { data?: unknown[] };
  if (response.status !== 200 || !body.data) throw new Error(`${path}: ${response.status}`);
  return performance.now() - started;
}

/** The address of page 1,000, found as a client does: from page to page. */
async function latePage(side: Side): Promise<string> {
  let path = `/v1/orders?limit=${PAGE}`;
  for (let page = 1; page < PAGES; page += 1) {
    const response = await fetch(side.baseUrl + path, { headers: { authorization: `Bearer ${side.key}` } });
    const { next } = (await response.json()) as { next: string | null };
    if (next === null) return path;
    path = `/v1/orders?limit=${PAGE}&cursor=${next}`;
  }
  return path;
}

async function reportPlans({ urls, orders }: Side): Promise<void> {
  const client = new Client({ connectionString: urls.appUrl });
  await client.connect();
  try {
    await client.query('BEGIN');
    await client.query(`SELECT waybill.set_context(1, null, '{viewer}', 'scale')`);
    console.log(`\nPlans at ${orders} orders, as waybill_app under row level security`);
    const base = { sort: '-placedAt', edge: null, direction: 'next', limit: PAGE + 1 } as const;
    for (const { name, page } of SHAPES) {
      const nodes = await explain(client, pageStatement(1, { ...base, ...page }));
      const slow = slowNodes(nodes, MANY_ROWS);
      console.log(`${name.padEnd(24)}${describePlan(nodes)}${slow.length > 0 ? `   SLOW: ${slow.join('; ')}` : ''}`);
    }
    await client.query('ROLLBACK');
  } finally {
    await client.end();
  }
}

interface Quartiles {
  lower: number;
  median: number;
  upper: number;
}

function quartiles(times: number[]): Quartiles {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share: number): number => sorted[Math.floor((sorted.length - 1) * share)] ?? Number.NaN;
  return { lower: at(0.25), median: at(0.5), upper: at(0.75) };
}

function describe({ lower, median, upper }: Quartiles): string {
  return `${median.toFixed(2)} (${lower.toFixed(2)} to ${upper.toFixed(2)})`;
}
