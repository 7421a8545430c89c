import type { paths } from './schema.js';

type Page<Item> = { data: Item[]; next: string | null };
type GetOf<Path extends keyof paths> = paths[Path] extends { get: infer Get } ? Get : never;
type BodyOf<Get> = Get extends { responses: { 200: { content: { 'application/json': infer Body } } } } ? Body : never;
type ParametersOf<Get> = Get extends { parameters: infer Parameters } ? Parameters : never;

/** The addresses that answer with pages. */
export type ListPath = {
  [Path in keyof paths]: BodyOf<GetOf<Path>> extends Page<unknown> ? Path : never;
}[keyof paths];
export type ListItem<Path extends ListPath> = BodyOf<GetOf<Path>> extends Page<infer Item> ? Item : never;
/** `path` and `query` of the list; `cursor` is taken care of. */
export type ListQuery<Path extends ListPath> = Pick<
  ParametersOf<GetOf<Path>> & { path?: unknown; query?: unknown },
  'path' | 'query'
>;

/** Asks for page after page until the last; stops asking when the consumer stops. */
export async function* each<Path extends ListPath>(
  _path: Path,
  params: ListQuery<Path> | undefined,
  readPage: (options: { params: Record<string, unknown> }) => Promise<unknown>,
): AsyncGenerator<ListItem<Path>> {
  let cursor: string | undefined;
  do {
    const query = { ...(params?.query as object | undefined), ...(cursor === undefined ? {} : { cursor }) };
    const page = (await readPage({ params: { ...params, query } })) as Page<ListItem<Path>>;
    yield* page.data;
    cursor = page.next ?? undefined;
  } while (cursor !== undefined);
}
