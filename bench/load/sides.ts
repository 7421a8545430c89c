import type { Bench } from '../measures/measure.js';
import type { BenchDatabase } from '../world/server.js';
import type { BenchService } from '../world/service.js';
import type { Side } from './alternate.js';
import { driveHttp, type HttpRequest } from './http.js';
import { drivePgbench } from './pgbench.js';

/** HTTP to one service with the same requests over and over: reads and replays. */
export function repeatedSide(bench: Bench, name: string, service: BenchService, requests: HttpRequest[]): Side {
  return httpSide(bench, name, service, () => requests, true);
}

/** HTTP to one service with requests of their own in every turn: writes. */
export function httpSide(
  { options, server }: Bench,
  name: string,
  service: BenchService,
  requestsFor: (seconds: number) => HttpRequest[],
  mayRepeat = false,
): Side {
  return {
    name,
    run: (seconds) =>
      driveHttp({
        baseUrl: service.baseUrl,
        connections: options.connections,
        seconds,
        requests: requestsFor(seconds),
        mayRepeat,
        service: [service.pid],
        postgres: server.postmaster,
      }),
  };
}

/** The SQL of a script, as the app role. */
export function sqlSide(
  { options, server, pgbench }: Bench,
  name: string,
  { appUrl }: BenchDatabase,
  script: string,
  clients = options.pgbenchClients,
): Side {
  return {
    name,
    run: (seconds) => drivePgbench({ pgbench, url: appUrl, script, clients, seconds, postgres: server.postmaster }),
  };
}

/** Counts what a side has done over all its turns, warming up included. */
export function counted(side: Side): { side: Side; total: () => number } {
  let total = 0;
  const run = async (seconds: number) => {
    const sample = await side.run(seconds);
    total += sample.count;
    return sample;
  };
  return { side: { name: side.name, run }, total: () => total };
}
