import { Controller, HttpCode, Param, Post, Query } from '@nestjs/common';
import { ApiBearerAuth, ApiOkResponse, ApiOperation, ApiParam, ApiProperty, ApiTags } from '@nestjs/swagger';
import { ApiProblems, notFound } from '../problems/index.js';
import { NoQuery } from '../validation/index.js';
import { TenantTransaction, Tx } from '../database/index.js';
import { Idempotent } from '../idempotency/index.js';
import { Roles } from '../identity/index.js';
import { type Erasure, ERASED_AT_ONCE, ErasureService } from './erasure.service.js';

class ErasureDto implements Erasure {
  @ApiProperty({ example: 'c-42' })
  customerRef!: string;
  @ApiProperty({ type: 'integer', example: 3, description: 'Orders whose personal data this request erased.' })
  orders!: number;
  @ApiProperty({
    description: `False when more orders are left: a request erases at most ${ERASED_AT_ONCE}. Ask again.`,
  })
  complete!: boolean;
}

@ApiTags('customers')
@ApiBearerAuth()
@Controller('v1/customers')
export class CustomersController {
  constructor(private readonly erasures: ErasureService) {}

  @Post(':ref/erasure')
  @HttpCode(200)
  @Idempotent()
  @Roles('admin')
  @ApiOperation({
    operationId: 'eraseCustomer',
    summary: "Erase a customer's personal data for good",
    description:
      'Names, addresses, e-mail and phone go from all versions of all orders of the customer, and from answers kept under idempotency keys. Each order gets an event customer.erased; every proof stays valid, and reads say that the data was erased. Doing it again changes nothing.',
  })
  @ApiParam({
    name: 'ref',
    example: 'c-42',
    description: '`customer.ref` of the orders, percent-encoded where it is no plain text: `a/b` is written `a%2Fb`.',
  })
  @ApiOkResponse({ type: ErasureDto })
  @ApiProblems(notFound)
  erase(@Tx() tx: TenantTransaction, @Param('ref') ref: string, @Query() _query: NoQuery): Promise<ErasureDto> {
    return this.erasures.erase(tx, ref);
  }
}
