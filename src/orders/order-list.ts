import { Injectable } from '@nestjs/common';
import { type Cursor, decodeCursor, encodeCursor, filterHash, parseTimestamp } from '../common/index.js';
import { DEFAULT_PAGE } from '../validation/index.js';
import { DomainError, invalidParameter } from '../problems/index.js';
import type { TenantTransaction } from '../database/index.js';
import { WorkflowService } from '../workflow/index.js';
import type { ListOrdersQuery } from './dto/order-query.dto.js';
import type { OrderDetails } from './order.entity.js';
import type { OrderFilter, OrderPage, OrderSort } from './order-page.js';
import { OrdersRepository } from './orders.repository.js';
import { ORDER_MACHINE } from './orders.service.js';

export interface ListedOrders {
  orders: OrderDetails[];
  next: string | null;
  prev: string | null;
  count?: number;
}

/** Pages of orders: filters, sort and cursors. */
@Injectable()
export class OrderList {
  constructor(
    private readonly orders: OrdersRepository,
    private readonly workflow: WorkflowService,
  ) {}

  async page(tx: TenantTransaction, query: ListOrdersQuery): Promise<ListedOrders> {
    const limit = query.limit ?? DEFAULT_PAGE;
    const sort = query.sort ?? '-placedAt';
    const filter = this.filterOf(query);
    const hash = filterHash(filter);
    const cursor = query.cursor === undefined ? null : readCursor(query.cursor, sort, hash);
    const page: OrderPage = {
      filter,
      sort,
      edge: cursor && edgeOf(cursor),
      direction: cursor?.dir ?? 'next',
      limit: limit + 1,
    };
    const counted = query.count === 'exact' ? { count: await this.orders.count(tx, page) } : {};
    const rows = await this.orders.pageBeforeCommit(tx, page);
    const hasMore = rows.length > limit;
    const orders = rows.slice(0, limit);
    if (page.direction === 'prev') orders.reverse();
    const isBack = page.direction === 'prev';
    const cursorAt = (order: OrderDetails | undefined, dir: 'next' | 'prev') =>
      order ? encodeCursor({ sort, filterHash: hash, dir, values: [sortValue(order, sort), order.id] }) : null;
    return {
      orders,
      next: isBack || hasMore ? cursorAt(orders.at(-1), 'next') : null,
      prev: (isBack ? hasMore : cursor !== null) ? cursorAt(orders[0], 'prev') : null,
      ...counted,
    };
  }

  private filterOf(query: ListOrdersQuery): OrderFilter {
    const status = query.status === undefined ? undefined : [...new Set(query.status.split(','))].toSorted();
    const unknown = status?.find((state) => !this.workflow.isOccupiable(ORDER_MACHINE, state));
    if (unknown !== undefined) {
      const detail = `There is no state ${unknown}. GET /v1/workflows/order lists them.`;
      throw new DomainError(invalidParameter, detail, { errors: [{ parameter: 'status', detail }] });
    }
    const filter: OrderFilter = {
      status,
      channel: query.channel,
      customerRef: query.customerRef,
      externalRef: query.externalRef,
      placedFrom: canonical(query['placedAt[gte]']),
      placedBefore: canonical(query['placedAt[lt]']),
      updatedFrom: canonical(query['updatedAt[gte]']),
      prefix: query.q,
    };
    return Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined));
  }
}

/** Orders from a time on, or before it, are those from the next microsecond on, or before that. */
function canonical(time: string | undefined): string | undefined {
  return time === undefined ? undefined : parseTimestamp(time, 'later');
}

function readCursor(text: string, sort: OrderSort, hash: string): Required<Cursor> {
  return decodeCursor(text, { sort, filterHash: hash, kinds: ['timestamp', 'uuid'] });
}

function edgeOf({ values: [at = '', id = ''] }: Required<Cursor>): { at: string; id: string } {
  return { at, id };
}

function sortValue(order: OrderDetails, sort: OrderSort): string {
  return sort.endsWith('placedAt') ? order.placedAt : order.updatedAt;
}
