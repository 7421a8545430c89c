import { Injectable } from '@nestjs/common';
import { type EventBody, EventReader, type StreamEvent } from '../audit/index.js';
import type { TenantTransaction } from '../database/index.js';
import { parseTimestamp } from '../common/index.js';
import { RawJson } from '../http/index.js';
import { DomainError, invalidParameter } from '../problems/index.js';
import type { ContactField, OrderDetails, OrderLine, OrderStatusChange } from './order.entity.js';
import { OrderNotFound, VersionNotFound } from './orders.errors.js';
import { OrdersRepository } from './orders.repository.js';

/** Which version of an order: one of at most two ways to say it; neither is the present one. */
export interface Moment {
  version?: number;
  /** RFC 3339 in UTC. */
  asOf?: string;
}

/** As `waybill.order_snapshot` makes it. */
type OrderSnapshot = Omit<OrderDetails, 'lines' | 'contacts' | 'eventHash'> & {
  lines: OrderLine[];
  contacts: Partial<Record<ContactField, { version: number; digest: string }>> | null;
};

/** What was: steps, versions and events of an order. */
@Injectable()
export class OrderHistoryService {
  constructor(
    private readonly orders: OrdersRepository,
    private readonly events: EventReader,
  ) {}

  /** The order as it was, with the contacts that it had then; erased ones stay erased. */
  async at(tx: TenantTransaction, id: string, { version, asOf }: Moment): Promise<OrderDetails> {
    const event =
      version === undefined
        ? await this.events.atTime(tx, streamOf(id), asOf ?? '')
        : await this.events.atVersion(tx, streamOf(id), version);
    if (!event) throw new VersionNotFound();
    const { snapshot } = JSON.parse(event.body) as EventBody<OrderSnapshot>;
    const versions = Object.entries(snapshot.contacts ?? {}).map(([field, contact]) => [field, contact.version]);
    const contacts = await this.orders.contactsAt(tx, id, Object.fromEntries(versions) as Record<ContactField, number>);
    const lines = new RawJson(JSON.stringify(snapshot.lines));
    return { ...snapshot, lines, contacts, eventHash: event.eventHash };
  }

  /** Who moved the order from where to where, oldest first. */
  async changes(tx: TenantTransaction, id: string): Promise<OrderStatusChange[]> {
    const history = await this.orders.history(tx, id);
    if (history.length === 0) throw new OrderNotFound();
    return history;
  }

  /** Events of the order after a version, oldest first. */
  async eventsAfter(tx: TenantTransaction, id: string, version: number, limit: number): Promise<StreamEvent[]> {
    const events = await this.events.page(tx, streamOf(id), version, limit);
    if (events.length === 0 && version === 0) throw new OrderNotFound();
    return events;
  }
}

function streamOf(id: string): string {
  return `order/${id}`;
}

/** Thrown for a moment that is said twice. */
export function momentOf(version: number | undefined, asOf: string | undefined): Moment {
  if (version !== undefined && asOf !== undefined) {
    const detail = 'Give either version or asOf, not both.';
    throw new DomainError(invalidParameter, detail, { errors: [{ parameter: 'asOf', detail }] });
  }
  return { version, asOf: asOf === undefined ? undefined : parseTimestamp(asOf) };
}
