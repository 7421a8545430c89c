/**
 * Who may import whom; the picture is in docs/architecture.md. For each folder below src, the folders it may import from;
 * itself is implied.
 */
const BASE = ['common', 'problems', 'http', 'validation'];
const MAY_IMPORT = {
  common: [],
  problems: ['common'],
  http: ['common', 'problems'],
  validation: ['common', 'problems'],
  background: ['common'],
  database: BASE,
  idempotency: [...BASE, 'background', 'database'],
  identity: [...BASE, 'background', 'database', 'idempotency'],
  workflow: [...BASE, 'database', 'identity'],
  audit: [...BASE, 'background', 'database', 'identity'],
  orders: [...BASE, 'database', 'identity', 'workflow', 'idempotency', 'audit'],
  payments: [...BASE, 'database', 'identity', 'workflow', 'idempotency', 'audit', 'orders'],
  shipments: [...BASE, 'database', 'identity', 'workflow', 'idempotency', 'audit', 'orders'],
  // No feature knows them: what is to be seen of a feature is read off its answers, or fetched by src/metrics.ts.
  observability: BASE,
  health: [...BASE, 'database'],
};

const INNER = Object.keys(MAY_IMPORT);

const FRAMEWORKS = '^node_modules/(@nestjs|typeorm|fastify|@fastify)/';
/** Decisions, hashing and money: they run without a server or a database. */
const PURE = [
  'common/.*',
  'http/(json-body|json-number|trace-context)',
  'workflow/(machine|diagram[a-z-]*)',
  'orders/(order-edit|order-number|order-page|order-totals)',
  'identity/api-key',
  'idempotency/(fingerprint|idempotency-key|policy|lease)',
  'payments/(provider-key|providers/(payment-provider|simulated-token|simulated-signature|stripe-money))',
  'audit/witness/(cosignature|witnesses)',
  'background/periodic-task',
  'database/(client|transaction|statement|statement-batch|statement-queue)',
  'observability/(idempotency-outcome|redaction|log-line)',
];

const PURE_FILES = `^src/(${PURE.join('|')})\\.ts$`;

export default {
  forbidden: [
    ...Object.entries(MAY_IMPORT).map(([folder, allowed]) => ({
      name: `${folder}-imports-only-what-is-left-of-it`,
      severity: 'error',
      from: { path: `^src/${folder}/` },
      to: { path: '^src/', pathNot: `^src/(${[folder, ...allowed].join('|')})/` },
    })),
    {
      name: 'only-the-index-of-another-module',
      comment:
        "A module's index.ts is its public face; audit/tools.ts and pure files are those parts that bring no framework along. The embedded server is a room of its own inside database.",
      severity: 'error',
      from: { path: `^src/(${INNER.join('|')}|[^/]+$)` },
      to: {
        path: `^src/(${INNER.join('|')})/`,
        pathNot: [
          `^src/$1/`,
          '^src/[^/]+/index\\.ts$',
          '^src/database/embedded/index\\.ts$',
          '^src/audit/tools\\.ts$',
          PURE_FILES,
        ],
      },
    },
    {
      name: 'pure-files-know-no-framework',
      severity: 'error',
      from: { path: PURE_FILES },
      to: { path: FRAMEWORKS },
    },
    {
      name: 'controllers-know-no-storage',
      comment: 'HTTP only: a controller asks a service. The type of what a service returns is no import at run time.',
      severity: 'error',
      from: { path: '\\.controller\\.ts$' },
      to: {
        path: '(\\.entity\\.ts$|\\.repository\\.ts$|^node_modules/(typeorm|pg)/)',
        dependencyTypesNot: ['type-only'],
      },
    },
    {
      name: 'extensions-use-the-public-face',
      comment: "An extension imports 'waybill/extension'; everything else of the core may change.",
      severity: 'error',
      from: { path: '^(examples|extensions)/' },
      to: { path: '^(src/(?!extension\\.ts$)|scripts/|test/)' },
    },
    {
      name: 'core-knows-none-of-those-who-use-it',
      severity: 'error',
      from: { path: '^src/' },
      to: { path: '^(examples|extensions|clients|demo|bench)/' },
    },
    {
      name: 'the-client-stands-alone',
      severity: 'error',
      from: { path: '^clients/' },
      to: { path: '^(src|scripts|demo|bench|examples|test)/' },
    },
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    {
      name: 'no-test-support-in-production',
      severity: 'error',
      from: { path: '^src/', pathNot: '\\.spec\\.ts$' },
      to: { path: '^(test|scripts)/' },
    },
    {
      name: 'no-development-dependency-in-production',
      severity: 'error',
      from: { path: '^src/', pathNot: '\\.spec\\.ts$' },
      to: { dependencyTypes: ['npm-dev'] },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'require', 'node', 'default'] },
  },
};
