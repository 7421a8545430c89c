import { describeAddress, parseAddress } from './database-address.js';

interface Failure {
  code?: string;
  message: string;
}

/** What is to be done where waiting mends nothing: by code, or by what the driver says where it has none. */
const ADVICE: readonly (readonly [pattern: RegExp, advice: string])[] = [
  [
    /unsupported startup parameter/,
    'This is a pooler such as PgBouncer: add pgbouncer=true to the address (docs/operating.md says what changes)',
  ],
  [/^28P01|no password|password must be a string/, 'Look at the role’s password in the address; %40 stands for @'],
  [
    /no encryption|^28000.*SSL off/,
    'The server wants encryption: add sslmode=verify-full, and sslrootcert for an authority of your own',
  ],
  [/^28000/, 'Look at the role in the address, and at pg_hba.conf of the server'],
  [/^3D000/, 'Look at the name of the database; migrations/bootstrap.sql makes it'],
  [/^42501/, 'Run migrations/bootstrap.sql again as an administrator: it puts the right to connect back'],
  [/does not support SSL/, 'Turn ssl on at the server, or write sslmode=disable where the network is your own'],
  [
    /^(?:SELF_SIGNED|DEPTH_ZERO|UNABLE_TO_(?:GET_ISSUER|VERIFY)|CERT_UNTRUSTED)/,
    'The server’s certificate is of an authority that Node doesn’t know: name the file of that authority’s certificate as sslrootcert=/path/ca.pem',
  ],
  [
    /^ERR_TLS_CERT_ALTNAME/,
    'The certificate is for another name: use that name as the host, or sslmode=verify-ca with sslrootcert',
  ],
  [/^CERT_HAS_EXPIRED/, 'Renew the server’s certificate'],
];

/** A connection that can't be made. */
export interface ConnectFailure {
  /** Where to, as whom, and why. */
  detail: string;
  /** Undefined where waiting may mend it. */
  whatToDo: string | undefined;
}

/** @param address with a password, which is not told */
export function connectFailure(address: string, error: unknown): ConnectFailure {
  const detail = `Cannot use PostgreSQL at ${describeAddress(address)} as ${parseAddress(address).user}: ${failureText(error)}`;
  const whatToDo = adviceFor(error);
  return { detail, whatToDo: whatToDo && `${whatToDo}.` };
}

/** A host name with several IP addresses fails with several errors and an empty message. */
export function failureText(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(failureText).join('; ');
  return isFailure(error) ? error.message || (error.code ?? 'Error') : String(error);
}

function adviceFor(error: unknown): string | undefined {
  if (!isFailure(error)) return undefined;
  const { code = '', message } = error;
  return ADVICE.find(([pattern]) => pattern.test(`${code} ${message}`) || pattern.test(message))?.[1];
}

/** Not by instanceof: an error of Node's own may be of another realm. */
function isFailure(error: unknown): error is Failure {
  return typeof error === 'object' && error !== null && 'message' in error && typeof error.message === 'string';
}
