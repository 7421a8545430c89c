import { execFile } from 'node:child_process';
import { mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const SCRIPT = join(import.meta.dirname, 'wrk.lua');

/** Renders requests for wrk. @returns what sends them, once, and then removes what was prepared */
export async function prepareWrk({ wrk, baseUrl, connections, seconds, requests }) {
  const folder = await mkdtemp(join(tmpdir(), 'waybill-wrk-'));
  const file = join(folder, 'requests');
  const { host } = new URL(baseUrl);
  const output = await open(file, 'w');
  for (let from = 0; from < requests.length; from += 1000)
    await output.write(
      requests
        .slice(from, from + 1000)
        .map((request) => `${render(request, host)}\0`)
        .join(''),
    );
  await output.close();
  return async () => {
    // Whole seconds, and one thread: on few cores a second one would only take more from those that are measured.
    const args = [
      '-t1',
      `-c${connections}`,
      `-d${Math.max(1, Math.round(seconds))}s`,
      '-s',
      SCRIPT,
      baseUrl,
      '--',
      file,
    ];
    const { stdout } = await promisify(execFile)(wrk, args);
    await rm(folder, { recursive: true });
    const { failed, ...outcome } = JSON.parse(stdout.slice(stdout.lastIndexOf('\n{')));
    return { ...outcome, failures: failed > 0 ? [['400 or more', failed]] : [] };
  };
}

function render({ method, path, headers, body = '' }, host) {
  const lines = Object.entries({ host, ...headers, 'content-length': Buffer.byteLength(body) });
  return `${method} ${path} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${body}`;
}
