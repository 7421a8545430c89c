import { alternate } from '../load/alternate.js';
import { authorization, createRequests, MOST_PER_SECOND } from '../load/orders.js';
import type { Sample } from '../load/sample.js';
import { httpSide, sqlSide } from '../load/sides.js';
import { makeSqlScripts } from '../load/sql-functions.js';
import { cpuEach, describe, ratios, type Row, throughput } from '../report/row.js';
import { query } from '../world/server.js';
import { startService } from '../world/service.js';
import type { Bench, Measure } from './measure.js';

const CLIENTS = [1, 8, 32, 64];
/** So many connect within the second that a quick turn lasts. */
const FEW_CLIENTS = [1, 8];

/** For comparison only: one chain for all orders, in which each append waits for the one before it to commit. */
const GLOBAL_CHAIN = `
CREATE TABLE audit.global_chain (id int PRIMARY KEY, hash bytea NOT NULL);
INSERT INTO audit.global_chain VALUES (1, sha256(''));
CREATE FUNCTION audit.global_append() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE audit.global_chain SET hash = sha256(hash || NEW.event_hash) WHERE id = 1;
  RETURN NULL;
END $$;
CREATE TRIGGER events_90_global AFTER INSERT ON audit.events FOR EACH ROW EXECUTE FUNCTION audit.global_append()`;

const VARIANTS = [
  { name: 'with the event trigger', change: 'SELECT' },
  { name: 'without', change: 'ALTER TABLE waybill.orders DISABLE TRIGGER orders_50_record_insert' },
  { name: 'with one chain for all', change: GLOBAL_CHAIN },
];

/** What the event trigger adds to a create, and whether it costs more the more clients there are. */
export const auditCost: Measure = {
  name: 'audit-cost',
  run: async (bench) => [await overHttp(bench), ...(await inSql(bench))],
};

async function overHttp(bench: Bench): Promise<Row> {
  const { server } = bench;
  const names: string[] = [];
  const services = [];
  try {
    const sides = [];
    for (const [index, { name, change }] of VARIANTS.slice(0, 2).entries()) {
      names.push(`bench_audit_http_${index}`);
      const database = await server.createDatabase(`bench_audit_http_${index}`);
      await query(database.superuserUrl, change);
      const service = await startService(database);
      services.push(service);
      const headers = authorization(database.tenant.keys.operator);
      const requests = (seconds: number) => createRequests(Math.ceil(seconds * MOST_PER_SECOND), headers);
      sides.push(httpSide(bench, `HTTP, ${name}`, service, requests));
    }
    const [with_ = [], without = []] = await alternate(bench, sides);
    return {
      measure: 'audit: CPU seconds a create with the event trigger',
      against: 'without it',
      figures: ratios(with_, without, cpuEach),
      unit: '×',
      goal: { atMost: 1.6 },
      details: { with: describe(with_), without: describe(without) },
    };
  } finally {
    for (const service of services) await service.stop();
    for (const name of names) await server.dropDatabase(name);
  }
}

async function inSql(bench: Bench): Promise<Row[]> {
  const { server, options } = bench;
  const counts = options.quick ? FEW_CLIENTS : CLIENTS;
  const names: string[] = [];
  try {
    const sides = [];
    for (const [index, { name, change }] of VARIANTS.entries()) {
      names.push(`bench_audit_sql_${index}`);
      const database = await server.createDatabase(`bench_audit_sql_${index}`);
      await query(database.superuserUrl, change);
      const { createInOneCall } = await makeSqlScripts(database);
      for (const clients of counts)
        sides.push(sqlSide(bench, `${clients} clients, ${name}`, database, createInOneCall, clients));
    }
    const samples = await alternate(bench, sides);
    const of = (variant: number, clients: number): Sample[] => samples[variant * counts.length + clients] ?? [];
    const last = counts.length - 1;
    const growth = (variant: number): number[] => ratios(of(variant, last), of(variant, 0), throughput);
    const own = growth(1);
    const compared = counts.map((clients, at): Row => ({
      measure: `audit: creates a second with ${clients} clients, with the event trigger`,
      against: 'without it',
      figures: ratios(of(0, at), of(1, at), throughput),
      unit: '×',
      goal: null,
      details: Object.fromEntries(VARIANTS.map(({ name }, variant) => [name, describe(of(variant, at))])),
    }));
    return [
      ...compared,
      {
        measure: `audit: growth of throughput from 1 to ${counts[last]} clients with the event trigger`,
        against: "PostgreSQL's own, without it",
        figures: growth(0).map((figure, round) => figure / (own[round] ?? figure)),
        unit: '×',
        goal: { atLeast: 0.95 },
        details: {},
      },
      {
        measure: `audit: creates a second with ${counts[last]} clients, a chain for each order`,
        against: 'one chain for all',
        figures: ratios(of(0, last), of(2, last), throughput),
        unit: '×',
        goal: null,
        details: {},
      },
    ];
  } finally {
    for (const name of names) await server.dropDatabase(name);
  }
}
