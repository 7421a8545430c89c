/** A log entry as pino writes it, read back. */
export interface LogEntry {
  level: string;
  /** RFC 3339 */
  time: string;
  msg?: string;
  context?: string;
  err?: { message?: string; stack?: string };
  [member: string]: unknown;
}

/** Members that a person at a terminal doesn't look for. */
const LEFT_OUT = new Set(['level', 'time', 'msg', 'context', 'err', 'traceId', 'spanId', 'event', 'method', 'route']);

/** An entry for people: `12:31:07 WARN  [Problem] message name=value`, and the stack of an error below it. */
export function readableLine(entry: LogEntry): string {
  const { level, time, msg = '', context, err } = entry;
  const details = Object.entries(entry)
    .filter(([name]) => !LEFT_OUT.has(name))
    .map(([name, value]) => `${name}=${typeof value === 'object' ? JSON.stringify(value) : String(value)}`);
  const head = [time.slice(11, 19), level.toUpperCase().padEnd(5), ...(context ? [`[${context}]`] : []), msg];
  const line = [...head, ...details].join(' ');
  const stack = err?.stack ?? err?.message;
  return stack === undefined ? line : `${line}\n${stack.replace(/^/gm, '    ')}`;
}
