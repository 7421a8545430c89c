import type { OpenAPIObject } from '@nestjs/swagger';
import { Administration } from '../../../src/identity/administration.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { sealerSettings } from '../../support/audit.js';
import { DocumentCheck, type Exchange, UndocumentedAnswer } from '../../support/document-check.js';
import { rows } from '../../support/sql.js';
import { KnownValues } from './known-values.js';
import { inputOperations } from './operations.js';
import { type InputWorld, type PlannedInput, planInput } from './plan-input.js';
import { InputSender } from './send-input.js';

export interface InputOptions {
  requests: number;
  seed: number;
  /** The first one that is sent; those before it are left out. */
  from?: number;
  progress?: (line: string) => void;
}

export interface InputReport {
  seed: number;
  requests: number;
  /** By operation: how many answers of each status. */
  answers: Record<string, Record<string, number>>;
  /** What should not have been, with the request that led to it. */
  faults: string[];
}

/** Faults after which a run ends: what is wrong is known by then. */
const ENOUGH = 25;
const PROGRESS = 1_000;

/**
 * Sends requests that are made from the service's own document to every operation, good and bad ones, one after the other. None
 * may be answered 5xx, and each answer must be what the document says.
 */
export async function runInput({ requests, seed, from = 0, progress }: InputOptions): Promise<InputReport> {
  const service = await startTestApp({ env: { ...(await sealerSettings()), RATE_LIMIT: 'off' } });
  try {
    const document = (await (await fetch(`${service.baseUrl}/openapi.json`)).json()) as OpenAPIObject;
    const world = await worldOf(service, document, seed);
    const run = new InputRun(world, new DocumentCheck(document), senderFor(service));
    await run.send(from, from + requests, progress);
    return { seed, requests, answers: run.answers, faults: run.faults };
  } finally {
    await service.close();
  }
}

async function worldOf(service: TestApp, document: OpenAPIObject, seed: number): Promise<InputWorld> {
  await new Administration(service.database.ownerUrl).setLogPublic('demo', true);
  const [row] = await rows<{ secret: string }>(
    service.database.superuserUrl,
    'SELECT secret FROM simulated_provider.webhook_secret',
  );
  const operations = inputOperations(document);
  return { seed, operations, known: new KnownValues(), webhookSecret: row?.secret ?? '' };
}

function senderFor(service: TestApp): InputSender {
  const [own, other] = service.tenants;
  return new InputSender(service.baseUrl, { ...own.keys, stranger: other.keys.admin ?? '' });
}

class InputRun {
  readonly answers: InputReport['answers'] = {};
  readonly faults: string[] = [];

  constructor(
    private readonly world: InputWorld,
    private readonly document: DocumentCheck,
    private readonly sender: InputSender,
  ) {}

  async send(from: number, until: number, progress?: (line: string) => void): Promise<void> {
    for (let index = from; index < until && this.faults.length < ENOUGH; index += 1) {
      await this.sendOne(index);
      if ((index + 1) % PROGRESS === 0) progress?.(`${index + 1} requests, ${this.faults.length} faults`);
    }
    this.sender.close();
  }

  private async sendOne(index: number): Promise<void> {
    const planned = planInput(this.world, index);
    const exchange = await this.sender.send(planned);
    const counts = (this.answers[planned.operation.id] ??= {});
    counts[exchange.status] = (counts[exchange.status] ?? 0) + 1;
    this.world.known.learn(exchange);
    const fault = this.faultOf(exchange);
    if (fault !== null) this.faults.push(`#${index} ${fault}\n${described(planned)}`);
  }

  private faultOf(exchange: Exchange): string | null {
    const { method, path, status, text } = exchange;
    if (status >= 500) return `${method} ${path} answered ${status}: ${text.slice(0, 300)}`;
    try {
      this.document.check(exchange);
      return null;
    } catch (error) {
      if (error instanceof UndocumentedAnswer) return error.message;
      throw error;
    }
  }
}

/** Enough to send it by hand. */
function described({ method, path, caller, headers, body }: PlannedInput): string {
  const lines = Object.entries(headers).map(([name, value]) => `  ${name}: ${JSON.stringify(value)}`);
  return [
    `  ${method} ${path} as ${caller}`,
    ...lines,
    ...(body ? [`  ${body.subarray(0, 600).toString()}`] : []),
  ].join('\n');
}
