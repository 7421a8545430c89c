import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { linkSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/*
 * A lock file that survives kill -9: it names its process, and when that started, so that a dead holder is seen as such
 * even after its pid has been given to another process. The service has the same in src/database/embedded/claims.ts;
 * this one must work before anything is installed or built. A child that goes on writing after its parent was killed holds
 * the lock as well.
 */

const EMPTY_LOCK_GRACE_MS = 2_000;

/** When the process started, in whatever form the system tells it; undefined when there is none. */
function startOf(pid) {
  try {
    if (process.platform === 'linux') {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
      return 'ZX'.includes(fields[0]) ? undefined : `${boot}:${fields[19]}`;
    }
    const options = { encoding: 'utf8', env: { PATH: process.env.PATH, LC_ALL: 'C' }, stdio: 'pipe' };
    return execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], options).trim() || undefined;
  } catch {
    return undefined;
  }
}

function isLive(file, text) {
  try {
    return JSON.parse(text).holders.some(({ pid, start }) => start !== undefined && startOf(pid) === start);
  } catch {
    return Date.now() - (statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0) < EMPTY_LOCK_GRACE_MS;
  }
}

function read(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

function tryLock(file, text) {
  try {
    writeFileSync(file, text, { flag: 'wx' });
    return true;
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  }
}

/** Moves a dead process's lock aside, and puts it back when a faster process had already replaced it. */
function breakLock(file, dead) {
  const aside = `${file}.${randomUUID()}`;
  try {
    renameSync(file, aside);
    if (read(aside) !== dead) linkSync(aside, file);
  } catch {
    // another process was faster
  }
  rmSync(aside, { force: true });
}

/**
 * Runs `work` while this process alone holds `file`; calls `onWait` once when it has to wait for a live holder. `work`
 * gets a function that makes a child a holder, too.
 */
export async function withLock(file, onWait, work) {
  const nonce = randomUUID();
  const holders = [{ pid: process.pid, start: startOf(process.pid) }];
  const text = JSON.stringify({ nonce, holders });
  const share = (pid) => {
    holders.push({ pid, start: startOf(pid) });
    writeFileSync(file, JSON.stringify({ nonce, holders }));
  };
  for (let told = false; !tryLock(file, text); await sleep(100)) {
    const held = read(file);
    if (held === undefined) continue;
    if (!isLive(file, held)) breakLock(file, held);
    else if (!told) {
      told = true;
      onWait();
    }
  }
  try {
    return await work(share);
  } finally {
    if (read(file)?.includes(nonce)) rmSync(file, { force: true });
  }
}
