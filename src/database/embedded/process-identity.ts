import { execFileSync } from 'node:child_process';
import { readFileSync, readlinkSync } from 'node:fs';

/**
 * A text that is the same for as long as one process lives, and differs for every other process that ever gets the
 * same pid: pids are used again, soon in a container and always after a reboot. Undefined when no such process runs;
 * a zombie counts as gone, since nothing but its parent's `wait` is missing.
 */
export function processToken(pid: number): string | undefined {
  if (!Number.isSafeInteger(pid) || pid <= 0) return undefined;
  return process.platform === 'linux' ? tokenFromProc(pid) : tokenFromPs(pid);
}

function tokenFromProc(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The command's name stands in parentheses and may itself hold spaces and parentheses: count from the last one.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [state, startTicks] = [fields[0], fields[19]];
    if (state === 'Z' || state === 'X') return undefined;
    return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()}:${startTicks}`;
  } catch {
    return undefined;
  }
}

function tokenFromPs(pid: number): string | undefined {
  const line = ps(pid, 'stat=,lstart=');
  if (!line || line.startsWith('Z')) return undefined;
  return line.slice(line.search(/\s/)).trim();
}

function ps(pid: number, format: string): string | undefined {
  try {
    const options = { encoding: 'utf8', env: { PATH: process.env.PATH, LC_ALL: 'C' }, stdio: 'pipe' } as const;
    return execFileSync('ps', ['-o', format, '-p', String(pid)], options).trim() || undefined;
  } catch {
    return undefined;
  }
}

/**
 * Whether `pid` is a live postmaster whose data directory is `dataFolder` (a real path, without symbolic links). Every
 * PostgreSQL process changes into its data directory, so on Linux the working directory is proof; elsewhere the
 * program's name has to do, and the caller's authenticated connection proves the rest.
 */
export function isPostmasterOf(pid: number, dataFolder: string): boolean {
  if (processToken(pid) === undefined) return false;
  if (process.platform !== 'linux') return ps(pid, 'command=')?.includes('postgres') ?? false;
  try {
    return (
      readlinkSync(`/proc/${pid}/cwd`) === dataFolder && readFileSync(`/proc/${pid}/comm`, 'utf8') === 'postgres\n'
    );
  } catch {
    // Another user's process. A postmaster of ours runs as ourselves, or we are root and could have looked.
    return false;
  }
}
