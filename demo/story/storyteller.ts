import type { ApiAnswer, ApiClient } from '../api-client.js';
import { detailOf } from '../api-client.js';
import type { OwnServer } from '../credentials.js';

/** What the chapters share: the service, and the order that the story is about. */
export interface StoryContext {
  api: ApiClient;
  say: Say;
  /** Why requests were sent again, so far. */
  retries: readonly string[];
  /** Null where only the API is known. */
  server: OwnServer | null;
  /** Where files of the story may stay. */
  dataDir: string;
  /** Set by the first chapter. */
  order: StoryOrder;
}

export interface StoryOrder {
  id: string;
  number: string;
  body: Record<string, unknown>;
  key: string;
}

/** One thing that the service promises, shown. */
export interface Chapter {
  title: string;
  /** @throws PromiseBroken when the service does something else */
  play(story: StoryContext): Promise<void>;
}

/** The service did not do what the chapter says. */
export class PromiseBroken extends Error {
  override readonly name = 'PromiseBroken';
}

/** Lines of the story, with colours where a terminal shows them. */
export class Say {
  constructor(
    private readonly write: (text: string) => void,
    private readonly colours: boolean,
  ) {}

  title(at: number, title: string): void {
    this.write(`\n${this.paint('1', `${at}. ${title}`)}\n`);
  }

  does(text: string): void {
    this.write(`   ${this.paint('36', '›')} ${text}\n`);
  }

  sees(text: string): void {
    this.write(`   ${this.paint('32', '✓')} ${text}\n`);
  }

  plain(text: string): void {
    this.write(`${text}\n`);
  }

  private paint(code: string, text: string): string {
    return this.colours ? `\u001b[${code}m${text}\u001b[0m` : text;
  }
}

/** Fails the story unless the answer has this status, and this code where one is given. */
export function expectAnswer(answer: ApiAnswer, status: number, code?: string): ApiAnswer {
  if (answer.status === status && (code === undefined || answer.body['code'] === code)) return answer;
  throw new PromiseBroken(
    `expected ${status} ${code ?? ''}, and the answer was ${answer.status} ${detailOf(answer.body)}`,
  );
}
