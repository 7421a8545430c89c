import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

interface CallFrame {
  functionName: string;
  url: string;
  lineNumber: number;
}

interface CpuProfile {
  nodes: { id: number; callFrame: CallFrame }[];
  samples: number[];
  timeDeltas: number[];
}

interface HeapNode {
  callFrame: CallFrame;
  selfSize: number;
  children: HeapNode[];
}

const SHOWN = 22;

/** Self time by package and by function, as shares of the CPU of one request. */
export async function cpuSummary(folder: string, microsecondsEach: number): Promise<string> {
  const profile = await readProfile<CpuProfile>(folder, '.cpuprofile');
  const frames = new Map(profile.nodes.map(({ id, callFrame }) => [id, callFrame]));
  const times = new Map<CallFrame, number>();
  for (const [index, id] of profile.samples.entries()) {
    const frame = frames.get(id);
    if (frame) times.set(frame, (times.get(frame) ?? 0) + (profile.timeDeltas[index] ?? 0));
  }
  const busy = [...times].filter(([{ functionName }]) => functionName !== '(idle)');
  return table(busy, (share) => `${(share * microsecondsEach).toFixed(1)} µs`);
}

/** What was allocated, by package and by function. */
export async function allocationSummary(folder: string): Promise<string> {
  const { head } = await readProfile<{ head: HeapNode }>(folder, '.heapprofile');
  const sizes: [CallFrame, number][] = [];
  const pending = [head];
  for (let node = pending.pop(); node; node = pending.pop()) {
    sizes.push([node.callFrame, node.selfSize]);
    pending.push(...node.children);
  }
  return table(sizes, (share) => `${(share * 100).toFixed(1)} %`);
}

function table(entries: [CallFrame, number][], show: (share: number) => string): string {
  const total = entries.reduce((sum, [, value]) => sum + value, 0);
  const grouped = (name: (frame: CallFrame) => string): string[] => {
    const sums = new Map<string, number>();
    for (const [frame, value] of entries) sums.set(name(frame), (sums.get(name(frame)) ?? 0) + value);
    return [...sums]
      .toSorted((a, b) => b[1] - a[1])
      .slice(0, SHOWN)
      .map(([label, value]) => `  ${show(value / total).padStart(10)}  ${label}`);
  };
  return [
    ...grouped(packageOf),
    '',
    ...grouped((frame) => `${frame.functionName || '(anonymous)'}  ${placeOf(frame)}`),
  ].join('\n');
}

function packageOf({ url, functionName }: CallFrame): string {
  const name = /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)?.[1];
  if (name) return name;
  const own = /dist\/src\/([^/]+)/.exec(url)?.[1];
  if (own) return `waybill ${own}`;
  if (url.startsWith('node:')) return url;
  return functionName.startsWith('(') ? functionName : 'native';
}

function placeOf({ url, lineNumber }: CallFrame): string {
  const short = url.replace(/.*node_modules\//, '').replace(/.*dist\//, '');
  return short ? `${short}:${lineNumber + 1}` : '';
}

async function readProfile<T>(folder: string, ending: string): Promise<T> {
  const file = (await readdir(folder)).find((name) => name.endsWith(ending));
  if (!file) throw new Error(`the service left no ${ending}: it did not end by itself`);
  return JSON.parse(await readFile(join(folder, file), 'utf8')) as T;
}
