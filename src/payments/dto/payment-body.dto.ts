import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { IsOptional } from 'class-validator';
import { IsMinorUnits, IsText } from '../../validation/index.js';
import { MAX_AMOUNT } from '../../common/index.js';

const minorUnits = (description: string, minimum: number, example: number) => ({
  type: 'integer' as const,
  minimum,
  maximum: MAX_AMOUNT,
  example,
  description: `${description}, in minor units of the order's currency.`,
});

export class AuthorizeBody {
  @ApiProperty({
    example: 'tok_approve',
    minLength: 1,
    maxLength: 255,
    description: "The provider's name of the means of payment, such as Stripe's `pm_…`. Never a card number.",
  })
  @IsText(1, 255)
  paymentMethod!: string;

  @ApiPropertyOptional(minorUnits("What to hold, at most the order's total; without it, the total", 1, 3582))
  @IsOptional()
  @IsMinorUnits({ min: 1 })
  amount?: number | null;
}

export class CaptureBody {
  @ApiPropertyOptional(minorUnits('What to take, at most what is held; without it, all of it', 1, 3582))
  @IsOptional()
  @IsMinorUnits({ min: 1 })
  amount?: number | null;
}

export class RefundBody {
  @ApiPropertyOptional(minorUnits('What to give back; without it, all that is left', 1, 1000))
  @IsOptional()
  @IsMinorUnits({ min: 1 })
  amount?: number | null;

  @ApiPropertyOptional(minorUnits('The tax in it; without it, in proportion', 0, 160))
  @IsOptional()
  @IsMinorUnits()
  tax?: number | null;

  @ApiPropertyOptional({
    type: 'string',
    example: 'one of two was broken',
    minLength: 1,
    maxLength: 500,
    description: 'Shown with the refund. Keep personal data out of it.',
  })
  @IsOptional()
  @IsText(1, 500)
  reason?: string | null;
}
