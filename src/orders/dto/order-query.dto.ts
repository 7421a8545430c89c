import { ApiPropertyOptional } from '@nestjs/swagger';
import { Type } from 'class-transformer';
import { IsIn, IsInt, IsOptional, Matches, Max, Min } from 'class-validator';
import { IsText, IsTimestamp, PageQuery } from '../../validation/index.js';
import { ORDER_SORTS, type OrderSort } from '../order-page.js';

export class ListOrdersQuery extends PageQuery {
  @ApiPropertyOptional({ example: 'pending,confirmed', description: 'One or more states, separated by commas.' })
  @IsOptional()
  @Matches(/^[a-z][a-z0-9_]*(,[a-z][a-z0-9_]*){0,19}$/, {
    message: '$property must be names of states, separated by commas',
  })
  status?: string;

  @ApiPropertyOptional({ example: 'web', description: 'Where the orders came from.' })
  @IsOptional()
  @IsText(1, 32)
  channel?: string;

  @ApiPropertyOptional({ example: 'c-42', description: 'Your reference of the customer.' })
  @IsOptional()
  @IsText(1, 100)
  customerRef?: string;

  @ApiPropertyOptional({ example: 'web-10001', description: 'Your reference of the order.' })
  @IsOptional()
  @IsText(1, 100)
  externalRef?: string;

  @ApiPropertyOptional({ format: 'date-time', description: 'Placed at this time or later.' })
  @IsOptional()
  @IsTimestamp()
  'placedAt[gte]'?: string;

  @ApiPropertyOptional({ format: 'date-time', description: 'Placed before this time.' })
  @IsOptional()
  @IsTimestamp()
  'placedAt[lt]'?: string;

  @ApiPropertyOptional({ format: 'date-time', description: 'Changed at this time or later.' })
  @IsOptional()
  @IsTimestamp()
  'updatedAt[gte]'?: string;

  @ApiPropertyOptional({ example: '7K3M', description: 'Beginning of a number or an external reference.' })
  @IsOptional()
  @IsText(1, 100)
  q?: string;

  @ApiPropertyOptional({ enum: ORDER_SORTS, default: '-placedAt', description: 'A minus sign sorts the latest first.' })
  @IsOptional()
  @IsIn(ORDER_SORTS)
  sort?: OrderSort;

  @ApiPropertyOptional({ enum: ['exact'], description: 'Also count the orders on all pages; costs a scan of them.' })
  @IsOptional()
  @IsIn(['exact'])
  count?: 'exact';
}

export class ReadOrderQuery {
  @ApiPropertyOptional({ format: 'date-time', description: 'The order as it was at this time.' })
  @IsOptional()
  @IsTimestamp()
  asOf?: string;

  @ApiPropertyOptional({ type: 'integer', minimum: 1, description: 'The order as it was in this version.' })
  @IsOptional()
  @Type(() => Number)
  @IsInt()
  @Min(1)
  @Max(2_147_483_647)
  version?: number;
}
