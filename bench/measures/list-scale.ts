import { databaseWithOrders } from '../generate/large-database.js';
import { alternate } from '../load/alternate.js';
import { authorization } from '../load/orders.js';
import { repeatedSide } from '../load/sides.js';
import { describe, ratios, type Row, throughput } from '../report/row.js';
import { startService } from '../world/service.js';
import type { Measure } from './measure.js';

const FEW = 10_000;
const PAGE = 10;
/** A page of ten, so that page 1,000 lies within ten thousand orders as well. */
const DEEP_PAGE = 1_000;

/** The first and a deep page of the list, with few orders and with many. */
export const listScale: Measure = {
  name: 'list-scale',
  run: async (bench) => {
    const { options } = bench;
    const few = await databaseWithOrders(bench, options.quick ? 1_000 : FEW);
    const many = await databaseWithOrders(bench, options.orders);
    const services = { few: await startService(few), many: await startService(many) };
    const deepPage = options.quick ? 50 : DEEP_PAGE;
    const side = async (size: 'few' | 'many', page: number) => {
      const database = size === 'few' ? few : many;
      const headers = authorization(database.tenant.keys.viewer);
      const cursor = page === 1 ? '' : `&cursor=${await cursorOf(services[size].baseUrl, headers, page)}`;
      const path = `/v1/orders?limit=${PAGE}${cursor}`;
      const requests = Array.from({ length: options.connections }, () => ({ method: 'GET', path, headers }));
      return repeatedSide(bench, `page ${page} of ${size}`, services[size], requests);
    };
    try {
      const [firstMany = [], firstFew = [], deepMany = [], deepFew = []] = await alternate(bench, [
        await side('many', 1),
        await side('few', 1),
        await side('many', deepPage),
        await side('few', deepPage),
      ]);
      const row = (page: number, large: typeof firstMany, small: typeof firstMany): Row => ({
        measure: `list, page ${page.toLocaleString('en-US')} at ${options.orders.toLocaleString('en-US')} orders: time`,
        against: `the same at ${(options.quick ? 1_000 : FEW).toLocaleString('en-US')} orders`,
        figures: ratios(small, large, throughput),
        unit: '×',
        goal: { atMost: 1.5 },
        details: { many: describe(large), few: describe(small) },
      });
      return [row(1, firstMany, firstFew), row(deepPage, deepMany, deepFew)];
    } finally {
      await services.few.stop();
      await services.many.stop();
    }
  },
};

/** A cursor is bound to sort and filter, not to the length of a page: so long pages are the way to a deep one. */
async function cursorOf(baseUrl: string, headers: Record<string, string>, page: number): Promise<string> {
  let cursor = '';
  let rest = (page - 1) * PAGE;
  while (rest > 0) {
    const limit = Math.min(200, rest);
    const answer = await fetch(`${baseUrl}/v1/orders?limit=${limit}${cursor && `&cursor=${cursor}`}`, { headers });
    const { next } = (await answer.json()) as { next: string | null };
    if (!next) throw new Error(`there is no page ${page}`);
    cursor = encodeURIComponent(next);
    rest -= limit;
  }
  return cursor;
}
