/** What the log tells of an error. */
export interface ErrorReport {
  /** Class of the error, such as `QueryFailedError`. */
  name: string;
  /** SQLSTATE, or what Node calls it, such as `ECONNREFUSED`. */
  code: string | undefined;
  message: string;
  /** Name and message, and below them where it was thrown. */
  stack: string;
}

/** PostgreSQL's own error, as pg makes it of what the server sends. */
interface ServerError {
  code: string;
  message: string;
  schema?: string;
  table?: string;
  column?: string;
  dataType?: string;
  constraint?: string;
  routine?: string;
}

/**
 * Classes of SQLSTATE (https://www.postgresql.org/docs/current/errcodes-appendix.html) whose messages speak of the server, of
 * connections, rights and objects of the schema. All others may repeat what somebody sent: `invalid input syntax for type
 * uuid: "…"`. So may a syntax error, which of a JSON path is one of the value, and whatever a function raises.
 */
const OF_THE_SERVER = /^(?:08|0A|25|26|28|3D|3F|40|42(?!601)|53|54|55|57|58|F0|XX)/;

/**
 * An error for the log. PostgreSQL's message is left out where it may hold a value of a caller; detail, hint, context and
 * parameters always are.
 */
export function errorReport(error: unknown): ErrorReport {
  if (!(error instanceof Error)) {
    const message = typeof error === 'string' ? error : `thrown: ${typeof error}`;
    return { name: 'Error', code: undefined, message, stack: message };
  }
  const server = serverErrorIn(error);
  const message = server && !OF_THE_SERVER.test(server.code) ? withoutValues(server) : error.message;
  const own = (error as { code?: unknown }).code;
  const code = server?.code ?? (typeof own === 'string' ? own : undefined);
  return { name: error.name, code, message, stack: `${error.name}: ${message}${framesOf(error)}` };
}

function serverErrorIn(error: Error): ServerError | undefined {
  const inner = 'driverError' in error && error.driverError instanceof Error ? error.driverError : error;
  const isOne = 'severity' in inner && 'code' in inner && typeof inner.code === 'string';
  return isOne ? (inner as Error & ServerError) : undefined;
}

function withoutValues({ code, schema, table, column, dataType, constraint, routine }: ServerError): string {
  const places = Object.entries({ schema, table, column, type: dataType, constraint, routine })
    .filter(([, name]) => name !== undefined)
    .map(([kind, name]) => `${kind} ${name}`);
  return `PostgreSQL refused it with ${code}${places.length > 0 ? ` (${places.join(', ')})` : ''}`;
}

/** The lines of the stack below the message, which may itself have lines. */
function framesOf({ stack = '', message }: Error): string {
  const rest = stack.slice(stack.indexOf(message) + message.length);
  const begin = rest.search(/\n {4}at /);
  return begin < 0 ? '' : rest.slice(begin);
}
