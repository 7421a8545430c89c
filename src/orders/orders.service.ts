import { Injectable } from '@nestjs/common';
import { createValidationPipe, findMetadataFault } from '../validation/index.js';
import { findLineFault, orderTotals, type OrderTotals } from './order-totals.js';
import { mergePatch, toJsonPointer } from '../common/index.js';
import type { TenantTransaction } from '../database/index.js';
import { type PossibleTransition, WorkflowService } from '../workflow/index.js';
import { EditableOrderBody, type LineBody, type PlaceOrderBody, type TransitionBody } from './dto/order-body.dto.js';
import type { Contact, ContactField, OrderDetails } from './order.entity.js';
import {
  changedFields,
  editableIn,
  editablePart,
  type EditableOrder,
  isContact,
  unknownRemovals,
} from './order-edit.js';
import { type Moment, OrderHistoryService } from './order-history.service.js';
import { InvalidOrder, NotEditable, OrderNotFound, stepRefusal, TotalMismatch } from './orders.errors.js';
import type { Contacts, NewLine } from './order-rows.js';
import { type OrderChanges, OrdersRepository } from './orders.repository.js';

export const ORDER_MACHINE = 'order';

export interface PossibleTransitions {
  state: string;
  final: boolean;
  /** When the workflow no longer has the state. */
  warning?: string;
  transitions: PossibleTransition[];
}

/** What can be done with orders, one after another inside the caller's transaction. */
@Injectable()
export class OrdersService {
  private readonly validation = createValidationPipe();

  constructor(
    private readonly orders: OrdersRepository,
    private readonly workflow: WorkflowService,
    private readonly past: OrderHistoryService,
  ) {}

  place(tx: TenantTransaction, body: PlaceOrderBody): Promise<OrderDetails> {
    const lines = body.lines.map(newLine);
    const totals = addUp(lines, body.shipping ?? 0);
    if (body.expectedTotal !== undefined && body.expectedTotal !== null && body.expectedTotal !== totals.total) {
      throw new TotalMismatch(body.expectedTotal, totals.total);
    }
    const { ref, ...customer } = body.customer;
    return this.orders.place(tx, {
      channel: body.channel,
      externalRef: body.externalRef ?? null,
      customerRef: ref,
      currency: body.currency,
      lines,
      totals,
      metadata: body.metadata ?? {},
      contacts: onlyGiven({
        customer: contact(customer),
        shippingAddress: contact(body.shippingAddress),
        billingAddress: contact(body.billingAddress),
      }),
    });
  }

  async get(tx: TenantTransaction, id: string, moment: Moment = {}): Promise<OrderDetails> {
    if (moment.version === undefined && moment.asOf === undefined)
      return found(await this.orders.findBeforeCommit(tx, id));
    found(await this.orders.find(tx, id));
    return this.past.at(tx, id, moment);
  }

  /**
   * Applies an RFC 7396 merge-patch as one version.
   *
   * @param expectedVersion null takes whatever version there is
   * @returns the order; the same version when the patch changes nothing
   */
  async patch(
    tx: TenantTransaction,
    id: string,
    patch: unknown,
    expectedVersion: number | null,
  ): Promise<OrderDetails> {
    const order = await this.orders.lock(tx, id, expectedVersion);
    if (!order) throw new OrderNotFound();
    const unknown = unknownRemovals(patch).map((path) => ({
      pointer: toJsonPointer(path),
      detail: `${path.at(-1)} is not known here`,
    }));
    if (unknown.length > 0) throw new InvalidOrder(unknown);
    const before = editablePart(order);
    const after = await this.checkEdited(mergePatch(before, patch));
    const fields = changedFields(before, after);
    if (fields.length === 0) return order;
    const editable = editableIn(order.status);
    const fixed = fields.filter((field) => !editable.includes(field));
    if (fixed.length > 0) throw new NotEditable(order.status, fixed);

    const changes: OrderChanges = {};
    if (fields.includes('metadata')) changes.metadata = after.metadata;
    if (fields.includes('lines') || fields.includes('shipping')) {
      changes.money = { lines: after.lines, totals: addUp(after.lines, after.shipping) };
    }
    changes.contacts = Object.fromEntries(fields.filter(isContact).map((field) => [field, after[field] ?? null]));
    return found(await this.orders.patch(tx, id, order.version, changes));
  }

  /**
   * Moves an order along its machine, with the guards and hooks that modules brought.
   *
   * @param expectedVersion null takes whatever version there is
   */
  transition(
    tx: TenantTransaction,
    id: string,
    { to, metadata, ...body }: TransitionBody,
    expectedVersion: number | null,
  ): Promise<OrderDetails> {
    const reason = body.reason ?? null;
    const change = { machine: ORDER_MACHINE, entityId: id, to, reason };
    return this.workflow.transition(tx, change, {
      lock: async () => found(await this.orders.lock(tx, id, expectedVersion)),
      needsLock: Boolean(metadata),
      move: async (locked) => {
        const merged = locked && metadata ? checkMetadata(mergePatch(locked.metadata, metadata)) : null;
        const version = locked ? locked.version : expectedVersion;
        return found(await this.orders.transition(tx, id, to, reason, version, merged));
      },
      read: async () => found(await this.orders.find(tx, id)),
    });
  }

  async possibleTransitions(tx: TenantTransaction, id: string): Promise<PossibleTransitions> {
    const { status: state } = found(await this.orders.find(tx, id));
    const order = { machine: ORDER_MACHINE, entityId: id, from: state };
    const transitions = await this.workflow.possible(tx, order, stepRefusal);
    const warning = this.workflow.knowsState(ORDER_MACHINE, state)
      ? undefined
      : `The workflow no longer has the state ${state}. Add transitions that lead out of it.`;
    return { state, final: transitions.length === 0, warning, transitions };
  }

  /** The same checks as for a new order; a pointer into the result is one into the patch. */
  private async checkEdited(edited: unknown): Promise<EditableOrder> {
    const body = (await this.validation.transform(edited, {
      type: 'body',
      metatype: EditableOrderBody,
    })) as EditableOrderBody;
    const { metadata, customer, shippingAddress, billingAddress, lines, shipping } = body;
    return {
      metadata,
      customer: contact(customer) ?? {},
      shippingAddress: contact(shippingAddress),
      billingAddress: contact(billingAddress),
      lines: lines.map(newLine),
      shipping,
    };
  }
}

function found(order: OrderDetails | null): OrderDetails {
  if (!order) throw new OrderNotFound();
  return order;
}

function newLine({ sku, name, quantity, unitPrice, discount, taxRatePpm }: LineBody): NewLine {
  return { sku, name, quantity, unitPrice, discount: discount ?? 0, taxRatePpm: taxRatePpm ?? 0 };
}

function addUp(lines: readonly NewLine[], shipping: number): OrderTotals {
  const faults = lines.flatMap((line, index) => {
    const fault = findLineFault(line);
    return fault ? [{ pointer: toJsonPointer(['lines', index, fault.field]), detail: fault.detail }] : [];
  });
  if (faults.length > 0) throw new InvalidOrder(faults);
  return orderTotals(lines, shipping);
}

function checkMetadata(metadata: unknown): Record<string, unknown> {
  const fault = findMetadataFault(metadata);
  if (fault) throw new InvalidOrder([{ pointer: '/metadata', detail: `metadata, merged, ${fault}` }]);
  return metadata as Record<string, unknown>;
}

/** A contact without the members that were not given; undefined when there is none. */
function contact(given: object | undefined | null): Contact | undefined {
  if (!given) return undefined;
  return Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== undefined && value !== null),
  ) as Contact;
}

function onlyGiven(contacts: Record<ContactField, Contact | undefined>): Contacts {
  return Object.fromEntries(Object.entries(contacts).filter(([, value]) => value !== undefined)) as Contacts;
}
