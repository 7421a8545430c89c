import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { IsInt, IsOptional, Matches, Max, Min } from 'class-validator';
import { IsText } from 'waybill/extension';

export class RequestReturnBody {
  @ApiProperty({ type: 'integer', minimum: 1, maximum: 250, example: 1, description: "The order's line." })
  @IsInt()
  @Min(1)
  @Max(250)
  lineNo!: number;

  @ApiProperty({ type: 'integer', minimum: 1, maximum: 1_000_000, example: 1 })
  @IsInt()
  @Min(1)
  @Max(1_000_000)
  quantity!: number;
}

export class MoveReturnBody {
  @ApiProperty({ example: 'approved', description: 'The state to go to.' })
  @Matches(/^[a-z][a-z0-9_]{0,62}$/, { message: '$property must be the name of a state' })
  to!: string;

  @ApiPropertyOptional({ example: 'unopened', minLength: 1, maxLength: 500 })
  @IsOptional()
  @IsText(1, 500)
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
