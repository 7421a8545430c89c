import type { LoggerService } from '@nestjs/common';
import type { Logger } from 'pino';
import { errorReport } from '../common/index.js';

/** What Nest says of each module and route when it starts helps nobody who runs the service. */
const CHATTER = new Set(['NestFactory', 'InstanceLoader', 'RoutesResolver', 'RouterExplorer', 'NestApplication']);

/** Nest's logger, and so every `new Logger(name)` of the service, on the process's log. */
export class ServiceLogger implements LoggerService {
  constructor(private readonly target: Logger) {}

  log(message: unknown, ...rest: unknown[]): void {
    const { context } = detailsOf(rest);
    this.write(context !== undefined && CHATTER.has(context) ? 'debug' : 'info', message, rest);
  }

  fatal(message: unknown, ...rest: unknown[]): void {
    this.write('fatal', message, rest);
  }

  error(message: unknown, ...rest: unknown[]): void {
    this.write('error', message, rest);
  }

  warn(message: unknown, ...rest: unknown[]): void {
    this.write('warn', message, rest);
  }

  debug(message: unknown, ...rest: unknown[]): void {
    this.write('debug', message, rest);
  }

  verbose(message: unknown, ...rest: unknown[]): void {
    this.write('trace', message, rest);
  }

  private write(
    level: 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'trace',
    message: unknown,
    rest: readonly unknown[],
  ): void {
    const { context, stack } = detailsOf(rest);
    const members = context === undefined ? {} : { context };
    if (message instanceof Error) this.target[level]({ ...members, err: message }, errorReport(message).message);
    else if (typeof message === 'object' && message !== null) this.target[level]({ ...members, ...message });
    else this.target[level](stack === undefined ? members : { ...members, err: { stack } }, String(message));
  }
}

/** Nest appends the logger's name; an error's stack comes before it, and is recognised by its lines. */
function detailsOf(rest: readonly unknown[]): { context?: string; stack?: string } {
  const texts = rest.filter((value): value is string => typeof value === 'string');
  const stack = texts.find((text) => text.includes('\n'));
  return { context: texts.findLast((text) => !text.includes('\n')), stack };
}
