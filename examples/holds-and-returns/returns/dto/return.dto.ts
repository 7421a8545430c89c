import { ApiProperty } from '@nestjs/swagger';
import { IntegerField, MAX_LINES, MAX_QUANTITY, ReasonField, StateField } from 'waybill/extension';

export class RequestReturnBody {
  @IntegerField({ min: 1, max: MAX_LINES, example: 1, description: "The order's line." })
  lineNo!: number;

  @IntegerField({ min: 1, max: MAX_QUANTITY, example: 1 })
  quantity!: number;
}

export class MoveReturnBody {
  @StateField({ example: 'approved' })
  to!: string;

  @ReasonField({ example: 'unopened' })
  reason?: string;
}

/** What a customer sends back of one line of a delivered order. */
export class ReturnDto {
  @ApiProperty({ format: 'uuid' })
  id!: string;
  @ApiProperty({ format: 'uuid' })
  orderId!: string;
  @ApiProperty({ type: 'integer', example: 1 })
  lineNo!: number;
  @ApiProperty({ type: 'integer', example: 1 })
  quantity!: number;
  @ApiProperty({ example: 'requested' })
  status!: string;
  @ApiProperty({ type: 'integer', example: 1 })
  version!: number;
}
