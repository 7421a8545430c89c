import { readdirSync, readFileSync } from 'node:fs';

/** Ticks of the kernel's clock in /proc; 100 a second on every Linux that this runs on. */
const MICROSECONDS_PER_TICK = 10_000;

interface ProcessTimes {
  parent: number;
  /** user and system time of the process itself, and of children that it has waited for, in microseconds */
  microseconds: number;
}

/**
 * CPU that a process and all its descendants have used, in microseconds, from /proc. Children that have ended count, as
 * their parent has waited for them: pgbench connects anew in every turn, so PostgreSQL's backends come and go.
 */
export function cpuOf(roots: readonly number[]): number {
  const all = readAll();
  const children = groupByParent(all);
  let total = 0;
  const pending = [...roots];
  for (let pid = pending.pop(); pid !== undefined; pid = pending.pop()) {
    total += all.get(pid)?.microseconds ?? 0;
    pending.push(...(children.get(pid) ?? []));
  }
  return total;
}

/** Resident memory of a process in MiB; 0 when it is gone. */
export function residentMegabytes(pid: number): number {
  const line = /^VmRSS:\s+(\d+) kB/m.exec(readText(`/proc/${pid}/status`));
  return Number(line?.[1] ?? 0) / 1024;
}

function readAll(): Map<number, ProcessTimes> {
  const all = new Map<number, ProcessTimes>();
  for (const name of readdirSync('/proc')) {
    const pid = Number(name);
    if (!Number.isInteger(pid)) continue;
    // The name, in parentheses, may hold anything; what follows are numbers: state, parent, …, utime, stime, cutime, cstime.
    const fields = readText(`/proc/${pid}/stat`).split(') ').at(-1)?.split(' ') ?? [];
    if (fields.length < 15) continue;
    const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
    all.set(pid, { parent: Number(fields[1]), microseconds: ticks * MICROSECONDS_PER_TICK });
  }
  return all;
}

function groupByParent(all: Map<number, ProcessTimes>): Map<number, number[]> {
  const children = new Map<number, number[]>();
  for (const [pid, { parent }] of all) children.set(parent, [...(children.get(parent) ?? []), pid]);
  return children;
}

/** A process may end between the listing and the reading. */
function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
