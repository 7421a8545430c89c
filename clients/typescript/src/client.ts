import createClient, { type Client } from 'openapi-fetch';
import { each, type ListItem, type ListPath, type ListQuery } from './pages.js';
import { toWaybillError } from './problem.js';
import { retryingFetch, type RetryOptions } from './retrying-fetch.js';
import type { paths } from './schema.js';

export interface WaybillOptions extends RetryOptions {
  /** Such as `https://orders.example.com`, without a path. */
  baseUrl: string;
  /** An API key or a JWT; a function is asked for each request, so that it can give a fresh one. */
  token: string | (() => string | Promise<string>);
  /** The `fetch` to use; default is the global one. */
  fetch?: typeof fetch;
}

/** What openapi-fetch's calls resolve to. */
type Called<Data> = Promise<{ data?: Data; error?: unknown; response: Response }>;

export interface WaybillClient {
  /** Every operation of the API, typed. Writes carry a key, and what failed on the way is repeated. */
  readonly api: Client<paths>;
  /**
   * The data of a call.
   * @throws WaybillError when the service answered with a problem
   */
  unwrap<Data>(called: Called<Data>): Promise<NonNullable<Data>>;
  /**
   * `If-Match` for what came from `unwrap`: the change is made only if nobody else changed the record since that very
   * object was read. Keep the object that the person saw; a newer one would hide what they didn't see.
   * @throws Error for an object without an ETag
   */
  ifMatch(data: object): { 'If-Match': string };
  /** Every entry of a list, page by page as they are needed. */
  each<Path extends ListPath>(path: Path, params?: ListQuery<Path>): AsyncGenerator<ListItem<Path>>;
}

/** The client of one service, for one caller. */
export function createWaybillClient(options: WaybillOptions): WaybillClient {
  const { baseUrl, token, fetch: fetchOnce = globalThis.fetch.bind(globalThis), ...retry } = options;
  const api = createClient<paths>({ baseUrl, fetch: retryingFetch(fetchOnce, retry) });
  api.use({
    async onRequest({ request }) {
      const bearer = typeof token === 'string' ? token : await token();
      request.headers.set('authorization', `Bearer ${bearer}`);
    },
  });
  const tags = new WeakMap<object, string>();

  const client: WaybillClient = {
    api,
    async unwrap(called) {
      const { data, error, response } = await called;
      if (!response.ok || data === undefined || data === null) throw toWaybillError(response, error);
      const tag = response.headers.get('etag');
      if (tag !== null && typeof data === 'object') tags.set(data, tag);
      return data;
    },
    ifMatch(data) {
      const tag = tags.get(data);
      if (tag !== undefined) return { 'If-Match': tag };
      throw new Error('This object has no ETag: pass the very object that `unwrap` returned for a single record.');
    },
    each: (path, params) =>
      // openapi-fetch can't follow a type parameter; that the path is one with a list is said by its type.
      each(path, params, (query) => client.unwrap(api.GET(path as '/v1/orders', query))),
  };
  return client;
}
