import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from 'node:tls';
import { AddressError } from './address-error.js';
import type { AddressParameters } from './address-parameters.js';

/**
 * How a connection is encrypted. Without a certificate of an authority (`sslrootcert`) the server's must be signed by one that
 * Node knows: a connection that is encrypted to somebody unknown is made only for `no-verify`, which says so.
 *
 * | sslmode     | with sslrootcert               | without                              |
 * | ----------- | ------------------------------ | ------------------------------------ |
 * | require     | the authority is looked at     | authority and name are looked at     |
 * | verify-ca   | the authority is looked at     | refused                              |
 * | verify-full | authority and name             | authority and name                   |
 * | no-verify   | refused                        | nothing is                           |
 *
 * @returns false for an open connection; undefined where nothing is said
 * @throws AddressError for what contradicts itself, and for a file that can't be read
 */
export function tlsOf(parameters: AddressParameters): ConnectionOptions | false | undefined {
  const { sslmode, sslrootcert, sslcert, sslkey } = parameters;
  if (sslmode === undefined && (sslrootcert ?? sslcert ?? sslkey) === undefined) return undefined;
  if (sslmode === undefined) throw new AddressError('names certificates, but no sslmode; write sslmode=verify-full');
  if (sslmode === 'disable') return false;
  if (sslmode === 'no-verify') {
    if (sslrootcert)
      throw new AddressError('has an sslrootcert that sslmode=no-verify never looks at; write verify-ca');
    return { rejectUnauthorized: false, ...clientCertificate(sslcert, sslkey) };
  }
  const ca = sslrootcert && sslrootcert !== 'system' ? contentOf('sslrootcert', sslrootcert) : undefined;
  if (sslmode === 'verify-ca' && ca === undefined) {
    throw new AddressError(
      'has sslmode=verify-ca without an sslrootcert. Name the file of the authority’s certificate, or write verify-full',
    );
  }
  const looksAtName = sslmode === 'verify-full' || ca === undefined;
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(looksAtName ? {} : { checkServerIdentity: () => undefined }),
    ...clientCertificate(sslcert, sslkey),
  };
}

function clientCertificate(cert: string | undefined, key: string | undefined): ConnectionOptions {
  if (cert === undefined && key === undefined) return {};
  if (cert === undefined || key === undefined) throw new AddressError('needs both sslcert and sslkey, or neither');
  return { cert: contentOf('sslcert', cert), key: contentOf('sslkey', key) };
}

/** Read for each connection: a certificate that was renewed needs no restart. */
function contentOf(parameter: string, file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new AddressError(`names a file as ${parameter} that can't be read (${code}): ${file}`, { cause: error });
  }
}
