import { ConsoleLogger, type LogLevel } from '@nestjs/common';
import { redact } from './http/index.js';

const LEVELS: readonly LogLevel[] = ['fatal', 'error', 'warn', 'log', 'debug', 'verbose'];
/** What Nest says of each module and route when it starts helps nobody who runs the service. */
const CHATTER = new Set(['NestFactory', 'InstanceLoader', 'RoutesResolver', 'RouterExplorer', 'NestApplication']);

/** The service's log on standard output; what the framework says of its own start is for the level `debug`. */
export class ServiceLogger extends ConsoleLogger {
  constructor(level: LogLevel) {
    super({ logLevels: LEVELS.slice(0, LEVELS.indexOf(level) + 1), prefix: 'Waybill', timestamp: false });
  }

  override log(message: unknown, ...rest: unknown[]): void {
    const context = rest.at(-1);
    if (typeof context === 'string' && CHATTER.has(context)) super.debug(message, ...rest);
    else super.log(message, ...rest);
  }

  protected override formatMessage(...parts: Parameters<ConsoleLogger['formatMessage']>): string {
    return redact(super.formatMessage(...parts));
  }

  protected override printStackTrace(stack: string): void {
    super.printStackTrace(stack && redact(stack));
  }
}
