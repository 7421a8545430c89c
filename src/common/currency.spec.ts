import { describe, expect, it } from '@jest/globals';

import { isCurrency } from './currency.js';

describe('isCurrency', () => {
  it('knows the codes in use, in capitals, and nothing else', () => {
    for (const code of ['EUR', 'USD', 'JPY', 'MXN', 'KWD', 'CHF']) expect(isCurrency(code)).toBe(true);
    for (const code of ['eur', 'DEM', 'XXX', 'XAU', 'HRK', '', 'EURO', ' EUR', 'constructor'])
      expect(isCurrency(code)).toBe(false);
  });
});
