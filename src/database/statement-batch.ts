import type { Writable } from 'node:stream';
import pg, { type FieldDef, type QueryResultRow } from 'pg';
import { serialize } from 'pg-protocol';
import { VALUE_TYPES } from './value-types.js';
import type { AnyStatement } from './statement.js';

/** A statement on its way, and who waits for its answer. */
export interface PendingStatement {
  statement: AnyStatement;
  resolve?: (result: StatementResult) => void;
  reject?: (error: unknown) => void;
}

export interface StatementResult {
  rows: QueryResultRow[];
  /** What PostgreSQL says it did, such as `COMMIT`. */
  command: string;
}

/** pg's own, not in its types. */
interface Connection {
  stream: Writable;
  parsedStatements: Record<string, string>;
  submittedNamedStatements: Record<string, string>;
}

/** Makes rows of what arrives: pg's `Result`, of which its types show only what comes out. */
interface RowReader {
  addFields(fields: FieldDef[]): void;
  parseRow(fields: (string | null)[]): QueryResultRow;
}

const { prepareValue } = (pg as unknown as { utils: { prepareValue: (value: unknown) => unknown } }).utils;
const Result = pg.Result as unknown as new (rowMode: undefined, types: typeof VALUE_TYPES) => RowReader;

/** By connection and name of a prepared statement, whose columns are the same as long as the connection lives. */
const knownReaders = new WeakMap<Connection, Map<string, RowReader | undefined>>();

/**
 * Statements that PostgreSQL gets in one packet and answers in one. pg ends every statement with a Sync, and at each of these
 * PostgreSQL sends what it has: a system call there and a wake-up here. This ends the last of several with one. After an error
 * PostgreSQL skips the rest, so everything behind it fails with the same error.
 *
 * A Query, as pg takes no other class in pipeline mode. `name` and `text` are those of the statement that is being answered:
 * pg reads them to note what PostgreSQL has parsed.
 */
export class StatementBatch extends pg.Query {
  declare name: string | undefined;
  declare text: string | undefined;
  /** pg's: ends its watch over how long an answer takes. */
  declare callback: (() => void) | undefined;
  private connection: Connection | undefined;
  /** Of the statement that is being answered. */
  private position = 0;
  /** Undefined where no rows come. */
  private reader: RowReader | undefined;
  private collected: QueryResultRow[] = [];
  private unreadable: { error: unknown } | undefined;

  constructor(private readonly pending: readonly PendingStatement[]) {
    super('');
  }

  /** @returns an error when the values can't be sent; nothing was sent then */
  override submit = (given: unknown): Error | null => {
    const connection = given as Connection;
    const messages: Buffer[] = [];
    const toParse = new Map<string, string>();
    try {
      for (const { statement } of this.pending) addMessages(messages, connection, statement, toParse);
    } catch (error) {
      return error instanceof Error ? error : new Error(String(error));
    }
    messages.push(serialize.sync());
    for (const [name, text] of toParse) connection.submittedNamedStatements[name] = text;
    this.connection = connection;
    // In one piece: a stream takes its time over each.
    if (connection.stream.writable) connection.stream.write(Buffer.concat(messages));
    this.begin(0);
    return null;
  };

  handleRowDescription({ fields }: { fields: FieldDef[] }): void {
    this.reader = new Result(undefined, VALUE_TYPES);
    this.reader.addFields(fields);
  }

  handleDataRow({ fields }: { fields: (string | null)[] }): void {
    if (this.unreadable || !this.reader) return;
    try {
      this.collected.push(this.reader.parseRow(fields));
    } catch (error) {
      this.unreadable = { error };
    }
  }

  handleCommandComplete({ text }: { text: string }): void {
    const asker = this.pending[this.position];
    const { collected: rows, unreadable } = this;
    if (this.name !== undefined && this.connection) readersOf(this.connection).set(this.name, this.reader);
    this.begin(this.position + 1);
    if (unreadable) asker?.reject?.(unreadable.error);
    else asker?.resolve?.({ rows, command: text });
  }

  /** What PostgreSQL says to a text without a statement, in the place of a completion. */
  handleEmptyQuery(): void {
    this.handleCommandComplete({ text: '' });
  }

  /** Also called by pg when the connection breaks or takes too long, and then perhaps more than once. */
  handleError(error: unknown): void {
    const rest = this.pending.slice(this.position);
    this.position = this.pending.length;
    for (const { statement, reject } of rest) {
      // PostgreSQL has skipped its Parse, if there was one.
      if (statement.name !== undefined) delete this.connection?.submittedNamedStatements[statement.name];
      reject?.(error);
    }
    this.callback?.();
  }

  handleReadyForQuery(): void {
    this.callback?.();
  }

  private begin(position: number): void {
    const statement = this.pending[position]?.statement;
    this.position = position;
    this.collected = [];
    this.unreadable = undefined;
    this.name = statement?.name;
    this.text = statement?.text;
    this.reader = this.connection && this.name !== undefined ? readersOf(this.connection).get(this.name) : undefined;
  }
}

/** @throws Error for a name that stands for another statement, or a value that can't be sent */
function addMessages(
  messages: Buffer[],
  connection: Connection,
  { name, text, values }: AnyStatement,
  toParse: Map<string, string>,
): void {
  const known = name === undefined ? undefined : (textOf(connection, name) ?? toParse.get(name));
  if (known === undefined) {
    messages.push(serialize.parse({ name, text }));
    if (name !== undefined) toParse.set(name, text);
  } else if (known !== text) throw new Error(`The prepared statement ${name} is another one on this connection`);
  messages.push(serialize.bind({ statement: name, values: values as unknown[], valueMapper: prepareValue }));
  if (name === undefined || !readersOf(connection).has(name)) messages.push(serialize.describe({ type: 'P' }));
  messages.push(serialize.execute());
}

/** The text of a statement that this connection has prepared, or is about to. */
function textOf({ parsedStatements, submittedNamedStatements }: Connection, name: string): string | undefined {
  return parsedStatements[name] ?? submittedNamedStatements[name];
}

function readersOf(connection: Connection): Map<string, RowReader | undefined> {
  let readers = knownReaders.get(connection);
  if (!readers) knownReaders.set(connection, (readers = new Map()));
  return readers;
}
