/** A country with its currency and tax rates; prices are in the currency's own minor units, which aren't always cents. */
export interface Market {
  country: string;
  currency: string;
  minorUnitsPerEuro: number;
  standardPpm: number;
  reducedPpm: number;
}

export const markets: Market[] = [
  { country: 'DE', currency: 'EUR', minorUnitsPerEuro: 100, standardPpm: 190_000, reducedPpm: 70_000 },
  { country: 'FR', currency: 'EUR', minorUnitsPerEuro: 100, standardPpm: 200_000, reducedPpm: 55_000 },
  { country: 'GR', currency: 'EUR', minorUnitsPerEuro: 100, standardPpm: 240_000, reducedPpm: 130_000 },
  { country: 'US', currency: 'USD', minorUnitsPerEuro: 108, standardPpm: 107_500, reducedPpm: 0 },
  { country: 'GB', currency: 'GBP', minorUnitsPerEuro: 86, standardPpm: 200_000, reducedPpm: 0 },
  { country: 'CH', currency: 'CHF', minorUnitsPerEuro: 96, standardPpm: 81_000, reducedPpm: 26_000 },
  { country: 'PL', currency: 'PLN', minorUnitsPerEuro: 430, standardPpm: 230_000, reducedPpm: 80_000 },
  { country: 'JP', currency: 'JPY', minorUnitsPerEuro: 163, standardPpm: 100_000, reducedPpm: 80_000 },
  { country: 'KW', currency: 'KWD', minorUnitsPerEuro: 333, standardPpm: 0, reducedPpm: 0 },
];

/** Name, city, street, and where there are such things, postal code and region. */
export type Customer = [name: string, city: string, street: string, postalCode?: string, region?: string];

/** Invented people and addresses by country. */
export const customers: Record<string, Customer[]> = {
  DE: [
    ['Änne Größlich', 'München', 'Rosenheimer Straße', '81667'],
    ['Teehaus am Fluß', 'Bremen', 'Osterdeich', '28203'],
  ],
  FR: [
    ['Zoé Lefèvre-Noël', 'Besançon', 'rue de l’Église', '25000'],
    ['Café « Œil de Bœuf »', 'Lyon', 'quai Saint-Vincent', '69001'],
  ],
  GR: [['Ελένη Παπαδοπούλου', 'Θεσσαλονίκη', 'Οδός Αγίας Σοφίας', '54622']],
  US: [
    ["Siobhán O'Malley", 'Portland', 'NE Alberta St', '97211', 'OR'],
    ['Ruiz & Daughters', 'Santa Fe', 'Canyon Rd', '87501', 'NM'],
  ],
  GB: [
    ['Llŷr Gruffydd', 'Aberystwyth', 'Great Darkgate St', 'SY23 1DE'],
    ['The Kettle & Crow', 'Leeds', 'Call Lane', 'LS1 7BT'],
  ],
  CH: [['Seraina Küng', 'Zürich', 'Langstrasse', '8004', 'ZH']],
  PL: [['Zażółć Gęślą Jaźń', 'Łódź', 'ulica Piotrkowska', '90-001']],
  JP: [['山田 花子', '京都市', '河原町通', '604-8005', '京都府']],
  KW: [['نورة الصباح', 'مدينة الكويت', 'شارع الخليج العربي']],
};

/** Article number, name, price in euros, and whether the reduced tax rate holds. */
export const products: [sku: string, name: string, euros: number, reduced: boolean][] = [
  ['TEA-SENCHA-100', 'Sencha 煎茶, 100 g', 12.99, true],
  ['TEA-ASSAM-250', 'Assam second flush, 250 g', 16.4, true],
  ['TEA-ROOI-100', 'Rooibos „Kap“, 100 g', 7.25, true],
  ['COF-YIRGA-500', 'Yirgacheffe, whole beans, 500 g', 18.9, true],
  ['HON-LIND-350', 'Lindenblütenhonig, 350 g', 8.45, true],
  ['CUP-RAKU-2', 'Two raku cups', 46, false],
  ['POT-IRON-08', 'Cast iron pot, 0.8 l', 89.5, false],
  ['KET-GOOSE-1', 'Gooseneck kettle', 129, false],
  ['SCA-001', 'Scale, 0.1 g', 34.95, false],
  ['WHI-CHASEN', 'Chasen 茶筅 whisk', 21.8, false],
  ['GIFT-WRAP', 'Gift wrapping 🎁', 3.5, false],
  ['BOOK-TEA', 'The Book of Tea', 11, true],
];

/** Why orders are canceled; no reason names a person. */
export const reasons = [
  'changed their mind',
  'ordered twice by mistake',
  'out of stock at the warehouse',
  'address can’t be delivered to',
  'payment didn’t arrive in time',
];
