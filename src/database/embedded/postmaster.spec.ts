import { expect, it } from '@jest/globals';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { shutDown } from './postmaster.js';
import { ServerFolder } from './server-folder.js';

it('has nothing to wait for when the server that is to be shut down has just died', async () => {
  const child = spawn(process.execPath, ['--eval', '']);
  await once(child, 'exit');
  const folder = await ServerFolder.open(tmpdir());
  const log: string[] = [];
  await shutDown(folder, child.pid ?? 0, { serves: true, log: (line) => log.push(line) });
  expect(child.exitCode).toBe(0);
  expect(log).toEqual([]);
});
