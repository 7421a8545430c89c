import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { v7 as uuid } from 'uuid';
import { call, type Command, command, type NamedStatement, type TenantTransaction } from '../database/index.js';
import type { OrderTotals } from './order-totals.js';
import { countStatement, detailsStatement, type OrderPage, type PageEdge, pageStatement } from './order-page.js';
import {
  type ContactField,
  type ContactTexts,
  type OrderDetails,
  OrderRow,
  OrderStatusChange,
} from './order.entity.js';
import { drawOrderNumber } from './order-number.js';
import {
  type Contacts,
  contactArguments,
  contactTexts,
  lineArguments,
  linesOf,
  type NewLine,
  orderOf,
} from './order-rows.js';
import { orderError } from './orders.errors.js';

export interface NewOrder {
  channel: string;
  externalRef: string | null;
  customerRef: string;
  currency: string;
  lines: readonly NewLine[];
  totals: OrderTotals;
  metadata: Record<string, unknown>;
  contacts: Contacts;
}

/** What a command is to change; what is left out stays. */
export interface OrderChanges {
  metadata?: Record<string, unknown>;
  contacts?: Contacts;
  money?: { lines: readonly NewLine[]; totals: OrderTotals };
}

export interface CustomerErased {
  /** Whether any order has this customer. */
  known: boolean;
  /** Orders that were erased. */
  erased: number;
  /** Whether some are left. */
  remaining: boolean;
}

/** Every query on the tables of orders. */
@Injectable()
export class OrdersRepository {
  private readonly transitionOrder: Command<'id' | 'to' | 'reason' | 'expectedVersion' | 'metadata'>;
  private readonly patchOrder: Command<(typeof CHANGED)[number]>;
  private readonly lockOrder: Command<'id' | 'expectedVersion'>;
  private readonly findOrder: NamedStatement;
  private readonly findOrders: NamedStatement;
  /** The beginning of what reads orders of the tenant `$1`. */
  private readonly details: string;

  constructor(dataSource: DataSource) {
    // The entity alone knows which column is which property.
    const { columns } = dataSource.getMetadata(OrderRow);
    const list = columns.map(({ databaseName, propertyName }) => `${databaseName} AS "${propertyName}"`).join(', ');
    this.transitionOrder = {
      ...command('transition_order', list, ['id', 'to', 'reason', 'expectedVersion', 'metadata']),
      isRefusedUnclaimed: true,
    };
    this.patchOrder = { ...command('patch_order', list, CHANGED), isRefusedUnclaimed: true };
    this.lockOrder = { ...command('lock_order_details', list, ['id', 'expectedVersion']), isRefusedUnclaimed: true };
    this.details = `SELECT ${list} FROM waybill.order_details WHERE tenant_id = $1`;
    this.findOrder = { name: 'find_order', text: `${this.details} AND id = $2` };
    this.findOrders = { name: 'find_orders', text: `${this.details} AND id = ANY ($2)` };
  }

  /** Only what the caller can't know is asked back; the rest of the answer is what was given. */
  async place(tx: TenantTransaction, order: NewOrder): Promise<OrderDetails> {
    const { channel, externalRef, customerRef, currency, metadata, contacts, lines, totals } = order;
    const { subtotal, discount, tax, shipping, total } = totals;
    const given = { id: uuid(), number: drawOrderNumber(), channel, externalRef, customerRef, currency };
    const amounts = { subtotal, discount, tax, shipping, total };
    const written = contactArguments(contacts);
    const [placed] = await this.run(() =>
      call<Placed, (typeof PLACED)[number]>(tx, PLACE_ORDER, {
        ...given,
        ...amounts,
        metadata,
        ...lineArguments(lines, totals),
        ...written,
      }),
    );
    if (!placed) throw new Error('place_order returned nothing');
    const texts = Object.fromEntries(written.fields.map((field, index) => [field, written.values[index]]));
    return {
      ...given,
      ...amounts,
      ...placed,
      updatedAt: placed.placedAt,
      lines: linesOf(lines, totals),
      contacts: contactTexts(texts),
    };
  }

  /** @returns null when there is no such order */
  transition(
    tx: TenantTransaction,
    id: string,
    to: string,
    reason: string | null,
    expectedVersion: number | null,
    metadata: Record<string, unknown> | null,
  ): Promise<OrderDetails | null> {
    return this.one(() => call(tx, this.transitionOrder, { id, to, reason, expectedVersion, metadata }));
  }

  /** @returns null when there is no such order */
  patch(tx: TenantTransaction, id: string, version: number, changes: OrderChanges): Promise<OrderDetails | null> {
    const { metadata = null, contacts = {}, money } = changes;
    const { subtotal = null, discount = null, tax = null, shipping = null, total = null } = money?.totals ?? {};
    const lines = money ? lineArguments(money.lines, money.totals) : NO_LINES;
    const amounts = { subtotal, discount, tax, shipping, total };
    const given = { id, expectedVersion: version, metadata, ...amounts, ...lines, ...contactArguments(contacts) };
    return this.one(() => call(tx, this.patchOrder, given));
  }

  find(tx: TenantTransaction, id: string): Promise<OrderDetails | null> {
    return this.one(() => tx.rows(this.findOrder, [tx.context.tenantId, id]));
  }

  /** The same where nothing else is asked in this transaction. */
  findBeforeCommit(tx: TenantTransaction, id: string): Promise<OrderDetails | null> {
    return this.one(() => tx.rowsBeforeCommit(this.findOrder, [tx.context.tenantId, id]));
  }

  /** Reads an order and keeps others from changing it until the transaction ends. */
  lock(tx: TenantTransaction, id: string, expectedVersion: number | null): Promise<OrderDetails | null> {
    return this.one(() => call(tx, this.lockOrder, { id, expectedVersion }));
  }

  /**
   * One page, whatever its length in one statement where it is prepared, else in two: to plan the details anew would take
   * longer than to read them. Nothing else is asked in this transaction afterwards.
   */
  async pageBeforeCommit(tx: TenantTransaction, page: OrderPage): Promise<OrderDetails[]> {
    const prepared = detailsStatement(tx.context.tenantId, page, this.details);
    if (prepared) return (await tx.rowsBeforeCommit<OrderRow>(prepared, prepared.values)).map(orderOf);
    const { text, values } = pageStatement(tx.context.tenantId, page);
    const edges = await tx.adHocRows<PageEdge>(text, values);
    const ids = edges.map(({ id }) => id);
    if (ids.length === 0) return [];
    const orders = await tx.rowsBeforeCommit<OrderRow>(this.findOrders, [tx.context.tenantId, ids]);
    const byId = new Map(orders.map((order) => [order.id, orderOf(order)]));
    return ids.flatMap((id) => byId.get(id) ?? []);
  }

  async count(tx: TenantTransaction, page: OrderPage): Promise<number> {
    const { text, values } = countStatement(tx.context.tenantId, page);
    const [row] = await tx.adHocRows<{ count: number }>(text, values);
    return row?.count ?? 0;
  }

  history(tx: TenantTransaction, orderId: string): Promise<OrderStatusChange[]> {
    return tx.manager.find(OrderStatusChange, {
      where: { tenantId: tx.context.tenantId, orderId },
      order: { seq: 'ASC' },
    });
  }

  /** Contacts as they were: field to version; one that is missing was erased. */
  async contactsAt(
    tx: TenantTransaction,
    orderId: string,
    versions: Partial<Record<ContactField, number>>,
  ): Promise<ContactTexts> {
    const rows = await tx.rows<{ field: ContactField; value: string }>(CONTACTS_AT, [
      tx.context.tenantId,
      orderId,
      Object.keys(versions),
      Object.values(versions),
    ]);
    return contactTexts(Object.fromEntries(rows.map(({ field, value }) => [field, value])));
  }

  /** Erases the personal data of at most `limit` orders of a customer. */
  async eraseCustomer(tx: TenantTransaction, customerRef: string, limit: number): Promise<CustomerErased> {
    const [row] = await call<CustomerErased, 'customerRef' | 'limit'>(tx, ERASE_CUSTOMER, { customerRef, limit });
    if (!row) throw new Error('erase_customer returned nothing');
    return row;
  }

  private async one(rows: () => Promise<OrderRow[]>): Promise<OrderDetails | null> {
    const [order] = await this.run(rows);
    return order ? orderOf(order) : null;
  }

  private async run<Row>(rows: () => Promise<Row[]>): Promise<Row[]> {
    try {
      return await rows();
    } catch (error) {
      throw orderError(error);
    }
  }
}

type Placed = Pick<OrderDetails, 'status' | 'version' | 'placedAt' | 'metadata' | 'eventHash'>;

const AMOUNTS = ['subtotal', 'discount', 'tax', 'shipping', 'total'] as const;
const PARTS = [
  ...(['skus', 'names', 'quantities', 'unitPrices', 'discounts', 'taxRates', 'taxes', 'totals'] as const),
  ...(['fields', 'values', 'salts'] as const),
] as const;
const PLACED = [
  ...(['id', 'number', 'channel', 'externalRef', 'customerRef', 'currency'] as const),
  ...AMOUNTS,
  'metadata',
  ...PARTS,
] as const;
const CHANGED = ['id', 'expectedVersion', 'metadata', ...AMOUNTS, ...PARTS] as const;

const PLACE_ORDER = {
  ...command('place_order', 'status, version, placed_at AS "placedAt", metadata, event_hash AS "eventHash"', PLACED),
  isRefusedUnclaimed: true,
};

/** Null leaves the lines as they are. */
const NO_LINES = {
  skus: null,
  names: null,
  quantities: null,
  unitPrices: null,
  discounts: null,
  taxRates: null,
  taxes: null,
  totals: null,
};

const CONTACTS_AT: NamedStatement = {
  name: 'order_contacts_at',
  text: `SELECT c.field, c.value FROM unnest($3::text[], $4::int[]) AS w(field, version)
         JOIN waybill.order_contacts c ON c.tenant_id = $1 AND c.order_id = $2 AND c.field = w.field AND c.version = w.version`,
};

const ERASE_CUSTOMER = command('erase_customer', 'known, erased, remaining', ['customerRef', 'limit']);
