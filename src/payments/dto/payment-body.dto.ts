import { AmountField, TextField } from '../../validation/index.js';

export class AuthorizeBody {
  @TextField({
    max: 255,
    example: 'tok_approve',
    description: "The provider's name of the means of payment, such as Stripe's `pm_…`. Never a card number.",
  })
  paymentMethod!: string;

  @AmountField({
    optional: true,
    min: 1,
    example: 3582,
    description:
      "What to hold, at most the order's total; without it, the total, in minor units of the order's currency.",
  })
  amount?: number | null;
}

export class CaptureBody {
  @AmountField({
    optional: true,
    min: 1,
    example: 3582,
    description: "What to take, at most what is held; without it, all of it, in minor units of the order's currency.",
  })
  amount?: number | null;
}

export class RefundBody {
  @AmountField({
    optional: true,
    min: 1,
    example: 1000,
    description: "What to give back; without it, all that is left, in minor units of the order's currency.",
  })
  amount?: number | null;

  @AmountField({
    optional: true,
    example: 160,
    description: "The tax in it; without it, in proportion, in minor units of the order's currency.",
  })
  tax?: number | null;

  @TextField({
    optional: true,
    max: 500,
    example: 'one of two was broken',
    description: 'Shown with the refund. Keep personal data out of it.',
  })
  reason?: string | null;
}
