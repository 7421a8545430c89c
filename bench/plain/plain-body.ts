import { Type } from 'class-transformer';
import { ArrayMinSize, IsInt, IsObject, IsString, Length, Min, ValidateNested } from 'class-validator';

class PlainLineBody {
  @IsString()
  @Length(1, 100)
  sku!: string;
  @IsString()
  @Length(1, 300)
  name!: string;
  @IsInt()
  @Min(1)
  quantity!: number;
  @IsInt()
  @Min(0)
  unitPrice!: number;
  @IsInt()
  @Min(0)
  discount!: number;
  @IsInt()
  @Min(0)
  taxRatePpm!: number;
}

export class PlainOrderBody {
  @IsString()
  @Length(1, 32)
  channel!: string;
  @IsString()
  @Length(1, 100)
  externalRef!: string;
  @IsString()
  @Length(3, 3)
  currency!: string;
  @IsObject()
  customer!: { ref: string };
  @IsObject()
  shippingAddress!: object;
  @ArrayMinSize(1)
  @ValidateNested({ each: true })
  @Type(() => PlainLineBody)
  lines!: PlainLineBody[];
  @IsInt()
  @Min(0)
  shipping!: number;
  @IsInt()
  expectedTotal!: number;
  @IsObject()
  metadata!: object;
}
