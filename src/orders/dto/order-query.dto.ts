import {
  ChoiceField,
  IntegerField,
  PageQuery,
  PatternField,
  ReferenceField,
  TextField,
  TimestampField,
} from '../../validation/index.js';
import { ORDER_SORTS, type OrderSort } from '../order-page.js';
import { MAX_REFERENCE } from './order-body.dto.js';

const LATEST_VERSION = 2_147_483_647;

export class ListOrdersQuery extends PageQuery {
  @PatternField(/^[a-z][a-z0-9_]*(,[a-z][a-z0-9_]*){0,19}$/, 'must be names of states, separated by commas', {
    optional: true,
    example: 'pending,confirmed',
    description: 'One or more states, separated by commas.',
  })
  status?: string;

  @TextField({ optional: true, max: 32, example: 'web', description: 'Where the orders came from.' })
  channel?: string;

  @ReferenceField({
    optional: true,
    max: MAX_REFERENCE,
    example: 'c-42',
    description: 'Your reference of the customer.',
  })
  customerRef?: string;

  @ReferenceField({
    optional: true,
    max: MAX_REFERENCE,
    example: 'web-10001',
    description: 'Your reference of the order.',
  })
  externalRef?: string;

  @TimestampField({ optional: true, description: 'Placed at this time or later.' })
  'placedAt[gte]'?: string;

  @TimestampField({ optional: true, description: 'Placed before this time.' })
  'placedAt[lt]'?: string;

  @TimestampField({
    optional: true,
    description:
      'Changed at this time or later. Not for polling: a change is seen once it is committed and bears the time at which it was made, so ' +
      'that one that commits late lies before a time that was asked for already. To miss none, follow `GET /v1/audit/events?after=…`.',
  })
  'updatedAt[gte]'?: string;

  @TextField({
    optional: true,
    max: MAX_REFERENCE,
    example: '7K3M',
    description: 'Beginning of a number or an external reference.',
  })
  q?: string;

  @ChoiceField(ORDER_SORTS, {
    optional: true,
    default: '-placedAt',
    description: 'A minus sign sorts the latest first.',
  })
  sort?: OrderSort;

  @ChoiceField(['exact'], { optional: true, description: 'Also count the orders on all pages; costs a scan of them.' })
  count?: 'exact';
}

export class ReadOrderQuery {
  @TimestampField({ optional: true, description: 'The order as it was at this time.' })
  asOf?: string;

  @IntegerField({ optional: true, min: 1, max: LATEST_VERSION, description: 'The order as it was in this version.' })
  version?: number;
}
