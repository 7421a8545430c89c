import { randomUUID } from 'node:crypto';
import { ApiClient, KeyRefused, ServiceUnreachable } from '../api-client.js';
import { type CredentialOptions, CredentialsMissing, findCredentials, findOwnServer } from '../credentials.js';
import type { ProgressOutput } from '../../src/cli/progress.js';
import { CHAPTERS } from './chapters.js';
import { PromiseBroken, Say, type StoryContext } from './storyteller.js';

/** Plays what the service promises, one chapter each, on the running service. @returns the exit code */
export async function tellStory(options: CredentialOptions, stdout: ProgressOutput): Promise<number> {
  const say = new Say((text) => void stdout.write(text), stdout.isTTY === true && !process.env['NO_COLOR']);
  try {
    const credentials = await findCredentials(options);
    const retries: string[] = [];
    const api = new ApiClient({ ...credentials, maxTries: 20, onRetry: (why) => retries.push(why) });
    say.plain(`What Waybill promises, on ${credentials.baseUrl}`);
    const server = await findOwnServer(options);
    const story: StoryContext = { api, say, retries, server, dataDir: options.dataDir, order: newOrder() };
    for (const [at, chapter] of CHAPTERS.entries()) {
      say.title(at + 1, chapter.title);
      await chapter.play(story);
    }
    say.plain(
      `\nThe order is ${credentials.baseUrl}/v1/orders/${story.order.id}; the API page is ${credentials.baseUrl}/docs.`,
    );
    return 0;
  } catch (error) {
    if (!isExpected(error)) throw error;
    say.plain(`\n${error instanceof PromiseBroken ? 'A PROMISE WAS BROKEN: ' : ''}${error.message}`);
    if (error instanceof ServiceUnreachable) say.plain('Is the service running? "npm start" starts it.');
    return 1;
  }
}

function newOrder(): StoryContext['order'] {
  const body = {
    channel: 'demo',
    externalRef: `story-${randomUUID()}`,
    currency: 'EUR',
    customer: { ref: 'c-42', name: 'Ada Example', email: 'ada@example.test' },
    lines: [{ sku: 'TEA-1', name: 'Green tea', quantity: 2, unitPrice: 1299, taxRatePpm: 190_000 }],
    shipping: 490,
    expectedTotal: 3582,
  };
  return { id: '', number: '', body, key: randomUUID() };
}

function isExpected(error: unknown): error is Error {
  return [PromiseBroken, ServiceUnreachable, KeyRefused, CredentialsMissing].some((kind) => error instanceof kind);
}
