import { randomBytes } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { v7 as uuid } from 'uuid';
import { type OrderTotals } from './order-totals.js';
import { RawJson } from '../http/index.js';
import type { NamedStatement, TenantTransaction } from '../database/index.js';
import {
  countStatement,
  type OrderPage,
  type PageEdge,
  type PageStatement,
  pageStatement,
  withDetails,
} from './order-page.js';
import {
  type Contact,
  type ContactField,
  OrderDetails,
  type OrderDocument,
  OrderStatusChange,
} from './order.entity.js';
import { drawOrderNumber } from './order-number.js';
import { orderError } from './orders.errors.js';

/** What a line is before anything is computed; amounts in minor units. */
export interface NewLine {
  sku: string;
  name: string;
  quantity: number;
  unitPrice: number;
  discount: number;
  taxRatePpm: number;
}

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

/** The field groups to write; null takes one away. */
export type Contacts = Partial<Record<ContactField, Contact | null>>;

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
  private readonly placeOrder: NamedStatement;
  private readonly transitionOrder: NamedStatement;
  private readonly patchOrder: NamedStatement;
  private readonly findOrder: NamedStatement;
  private readonly findOrders: NamedStatement;
  private readonly lockOrder: NamedStatement;
  /** The beginning of what reads orders of the tenant `$1` for answers. */
  private readonly documents: string;
  private readonly preparedPages = new Map<string, NamedStatement>();

  constructor(dataSource: DataSource) {
    // The entity alone knows which column is which property.
    const { columns } = dataSource.getMetadata(OrderDetails);
    const select = (some: typeof columns): string =>
      some.map(({ databaseName, propertyName }) => `${databaseName} AS "${propertyName}"`).join(', ');
    const list = select(columns);
    const document = select(columns.filter(({ databaseName }) => !OTHERWISE_IN_DOCUMENTS.has(databaseName)));
    const call = (name: string, parameters: number): NamedStatement => ({
      name,
      isRefusedUnclaimed: true,
      text: `SELECT ${list} FROM waybill.${name}(${Array.from({ length: parameters }, (_, i) => `$${i + 1}`).join(', ')})`,
    });
    this.placeOrder = call('place_order', 24);
    this.transitionOrder = call('transition_order', 6);
    this.patchOrder = call('patch_order', 20);
    this.documents = `SELECT ${document}, ${DOCUMENT_TEXTS} FROM waybill.order_documents WHERE tenant_id = $1`;
    this.findOrder = {
      name: 'find_order',
      text: `${this.documents} AND id = $2`,
    };
    this.findOrders = {
      name: 'find_orders',
      text: `${this.documents} AND id = ANY ($2)`,
    };
    this.lockOrder = call('lock_order_details', 3);
  }

  async place(tx: TenantTransaction, order: NewOrder): Promise<OrderDetails> {
    const { totals } = order;
    const amounts = [totals.subtotal, totals.discount, totals.tax, totals.shipping, totals.total];
    const refs = [order.channel, order.externalRef, order.customerRef, order.currency];
    const id = uuid();
    const parameters = [id, drawOrderNumber(), ...refs, ...amounts, order.metadata];
    const placed = await this.run(tx, this.placeOrder, [
      ...parameters,
      ...lineArrays(order.lines, totals),
      ...contactArrays(order.contacts),
    ]);
    if (!placed) throw new Error('place_order returned no order');
    return placed;
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
    return this.run(tx, this.transitionOrder, [id, to, reason, expectedVersion, metadata]);
  }

  /** @returns null when there is no such order */
  patch(tx: TenantTransaction, id: string, version: number, changes: OrderChanges): Promise<OrderDetails | null> {
    const { metadata = null, contacts = {}, money } = changes;
    const { subtotal, discount, tax, shipping, total }: Partial<OrderTotals> = money?.totals ?? {};
    return this.run(tx, this.patchOrder, [
      id,
      version,
      metadata,
      ...[subtotal, discount, tax, shipping, total].map((amount) => amount ?? null),
      ...(money ? lineArrays(money.lines, money.totals) : Array.from({ length: 8 }, () => null)),
      ...contactArrays(contacts),
    ]);
  }

  async find(tx: TenantTransaction, id: string): Promise<OrderDocument | null> {
    const [order] = await tx.rows<DocumentRow>(this.findOrder, [tx.context.tenantId, id]);
    return order ? documentOf(order) : null;
  }

  /** The same where nothing else is asked in this transaction. */
  async findBeforeCommit(tx: TenantTransaction, id: string): Promise<OrderDocument | null> {
    const [order] = await tx.rowsBeforeCommit<DocumentRow>(this.findOrder, [tx.context.tenantId, id]);
    return order ? documentOf(order) : null;
  }

  /** Reads an order and keeps others from changing it until the transaction ends. */
  lock(tx: TenantTransaction, id: string, expectedVersion: number | null): Promise<OrderDetails | null> {
    return this.run(tx, this.lockOrder, [id, expectedVersion]);
  }

  /**
   * One page, whatever its length in one statement where it is prepared, else in two: to plan the details anew would take
   * longer than to read them. Nothing else is asked in this transaction afterwards.
   */
  async pageBeforeCommit(tx: TenantTransaction, page: OrderPage): Promise<OrderDocument[]> {
    const statement = pageStatement(tx.context.tenantId, page);
    const { name, text, values } = statement;
    if (name !== undefined) {
      const orders = await tx.rowsBeforeCommit<DocumentRow>(this.preparedPage(name, statement), values);
      return orders.map(documentOf);
    }
    const edges = await tx.adHocRows<PageEdge>(text, values);
    const ids = edges.map(({ id }) => id);
    if (ids.length === 0) return [];
    const orders = await tx.rowsBeforeCommit<DocumentRow>(this.findOrders, [tx.context.tenantId, ids]);
    const byId = new Map(orders.map((order) => [order.id, documentOf(order)]));
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

  /** Contacts as they were: field and version to value; one that is missing was erased. */
  async contactsAt(
    tx: TenantTransaction,
    orderId: string,
    versions: Partial<Record<ContactField, number>>,
  ): Promise<Contacts> {
    const rows = await tx.rows<{ field: ContactField; value: Contact | null }>(CONTACTS_AT, [
      tx.context.tenantId,
      orderId,
      Object.keys(versions),
      Object.values(versions),
    ]);
    return Object.fromEntries(rows.map(({ field, value }) => [field, value]));
  }

  /** Erases the personal data of at most `limit` orders of a customer. */
  async eraseCustomer(tx: TenantTransaction, customerRef: string, limit: number): Promise<CustomerErased> {
    const [row] = await tx.rows<CustomerErased>(ERASE_CUSTOMER, [tx.context.tenantId, customerRef, limit]);
    if (!row) throw new Error('erase_customer returned nothing');
    return row;
  }

  /** A page with the details of its orders. */
  private preparedPage(name: string, page: PageStatement): NamedStatement {
    const known = this.preparedPages.get(name);
    if (known) return known;
    const statement = { name, text: withDetails(page, this.documents) };
    this.preparedPages.set(name, statement);
    return statement;
  }

  private async run(tx: TenantTransaction, statement: NamedStatement, values: unknown[]): Promise<OrderDetails | null> {
    try {
      const [order] = await tx.rows<OrderDetails>(statement, [tx.context.tenantId, ...values]);
      return order ?? null;
    } catch (error) {
      throw orderError(error);
    }
  }
}

const CONTACTS_AT: NamedStatement = {
  name: 'order_contacts_at',
  text: `SELECT c.field, c.value::jsonb AS value FROM unnest($3::text[], $4::int[]) AS w(field, version)
         JOIN waybill.order_contacts c ON c.tenant_id = $1 AND c.order_id = $2 AND c.field = w.field AND c.version = w.version`,
};

const ERASE_CUSTOMER: NamedStatement = {
  name: 'erase_customer',
  text: 'SELECT known, erased, remaining FROM waybill.erase_customer($1, $2, $3)',
};

/** Columns of `order_details` that a document lacks or has as text. */
const OTHERWISE_IN_DOCUMENTS = new Set(['tenant_id', 'lines', 'contacts']);
const DOCUMENT_TEXTS = `lines::text, customer, shipping_address AS "shippingAddress", billing_address AS "billingAddress"`;

type DocumentRow = Omit<OrderDocument, 'lines' | 'contacts'> & { lines: string } & Record<ContactField, string | null>;

function documentOf(row: DocumentRow): OrderDocument {
  const { lines, customer, shippingAddress, billingAddress } = row;
  return Object.assign(row, {
    lines: new RawJson(lines),
    contacts: {
      customer: contactOf(customer),
      shippingAddress: contactOf(shippingAddress),
      billingAddress: contactOf(billingAddress),
    },
  });
}

/** Neither a group that was never given nor one that was taken away is there. */
function contactOf(text: string | null): RawJson | null {
  return text === null || text === 'null' ? null : new RawJson(text);
}

const SALT_BYTES = 32;

/** In the order of the command functions' parameters. */
function lineArrays(lines: readonly NewLine[], totals: OrderTotals): unknown[][] {
  return [
    lines.map(({ sku }) => sku),
    lines.map(({ name }) => name),
    lines.map(({ quantity }) => quantity),
    lines.map(({ unitPrice }) => unitPrice),
    lines.map(({ discount }) => discount),
    lines.map(({ taxRatePpm }) => taxRatePpm),
    totals.lines.map(({ tax }) => tax),
    totals.lines.map(({ total }) => total),
  ];
}

function contactArrays(contacts: Contacts): unknown[][] {
  const given = Object.entries(contacts);
  return [
    given.map(([field]) => field),
    given.map(([, value]) => contactText(value)),
    given.map(() => randomBytes(SALT_BYTES)),
  ];
}

/** Members in jsonb's order: an order then reads the same whether an answer holds this text or what jsonb makes of it. */
function contactText(contact: Contact | null): string {
  if (!contact) return 'null';
  const members = Object.entries(contact).toSorted(([a], [b]) => a.length - b.length || (a < b ? -1 : 1));
  return JSON.stringify(Object.fromEntries(members));
}
