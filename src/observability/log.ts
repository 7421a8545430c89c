import { type DestinationStream, type Logger, pino, stdTimeFunctions } from 'pino';
import { currentRequest } from '../http/index.js';
import { errorReport, redact } from '../common/index.js';
import { type LogEntry, readableLine } from './log-line.js';
import { CENSORED, redactedPaths } from './redaction.js';

export type LogFormat = 'json' | 'text';

export interface LogSettings {
  /** A level of Nest's. */
  level: 'fatal' | 'error' | 'warn' | 'log' | 'debug' | 'verbose';
  format: LogFormat;
}

const PINO_LEVELS = {
  fatal: 'fatal',
  error: 'error',
  warn: 'warn',
  log: 'info',
  debug: 'debug',
  verbose: 'trace',
} as const;

/**
 * The log of the process: JSON with one entry a line, or lines for people. Entries written while a request is served
 * carry its id and trace. Secrets are taken out twice: by the name of their member, and by their look in the line.
 */
export function createLog({ level, format }: LogSettings, write: (line: string) => void = toStdout): Logger {
  const destination: DestinationStream =
    format === 'json'
      ? { write: (line) => write(redact(line)) }
      : { write: (line) => write(redact(`${readableLine(JSON.parse(line) as LogEntry)}\n`)) };
  return pino(
    {
      level: PINO_LEVELS[level],
      base: format === 'json' ? { service: 'waybill', pid: process.pid } : null,
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: redactedPaths, censor: CENSORED },
      serializers: { err: errorEntry },
      mixin: requestMembers,
    },
    destination,
  );
}

function toStdout(line: string): void {
  process.stdout.write(line);
}

function requestMembers(): Record<string, unknown> {
  const request = currentRequest();
  if (!request) return {};
  return { requestId: request.requestId, traceId: request.trace.traceId, spanId: request.trace.spanId };
}

/** No more of an error (or of what has only its stack) than its report: errors of the database carry what callers sent. */
function errorEntry(error: unknown): Record<string, unknown> {
  if (!(error instanceof Error)) return { stack: (error as { stack?: unknown }).stack };
  const { name, code, message, stack } = errorReport(error);
  return { type: name, ...(code === undefined ? {} : { code }), message, stack };
}
