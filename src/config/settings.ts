import type { WitnessPolicy } from '../audit/witness/witnesses.js';
import type { JwtSettings, RateLimitSettings } from '../identity/index.js';

/** How the service runs. Everything that reads a setting reads it from here. */
export interface Config {
  production: boolean;
  host: string;
  port: number;
  trustProxy: boolean | string;
  /** Connections at once, bytes of bodies at once. */
  maxConnections: number;
  bodyMemory: number;
  logLevel: LogLevel;
  /** JSON for machines, lines for people. */
  logFormat: LogFormat;
  /** Port of a server of its own for /metrics; null serves it beside the API. */
  metricsPort: number | null;
  /** Where OpenTelemetry spans go, over OTLP/HTTP; null sends none. */
  otlpEndpoint: string | null;
  shutdown: {
    /** After a signal, readiness is false for so long before new connections are refused. */
    delaySeconds: number;
    /** How long requests that were accepted may take to be answered. */
    graceSeconds: number;
  };
  /** Folder of the embedded server and of demo credentials. */
  dataDir: string;
  /** Addresses of an external PostgreSQL; null starts the embedded one. */
  database: DatabaseAddresses | null;
  /** Whether a database of a newer version is served, as while processes are rolled. */
  allowsNewerDatabase: boolean;
  databasePoolSize: number;
  databaseTimeouts: {
    /** Longest wait for a connection, new or out of the pool. */
    connectSeconds: number;
    /** Longest run of one statement. */
    statementSeconds: number;
    /** Longest wait of a statement for a lock. */
    lockSeconds: number;
  };
  /** Modules to load as extensions: packages, or paths from the working directory. */
  extensions: string[];
  idempotency: {
    /** How long answers are kept under their keys; null is for ever. */
    ttlSeconds: number | null;
    /** How long a key stays with a worker that is away on a call. */
    leaseSeconds: number;
  };
  payments: {
    /** What new payments are made with. */
    provider: 'simulated' | 'stripe';
    /** Null without a key. */
    stripe: { apiKey: string; apiBase: string | null; webhookSecret: string | null } | null;
  };
  /** For fault tests: kill points are told to the parent process, which says when to go on. */
  killPoints: boolean;
  /** The identity provider whose tokens are accepted; null accepts API keys only. */
  jwt: JwtSettings | null;
  rateLimits: RateLimitSettings;
  /** Origins whose pages may call this service from a browser. */
  corsOrigins: string[];
  audit: AuditSettings;
}

/** How history is sealed. */
export interface AuditSettings {
  /** Keys as given; null where the embedded default makes one, and elsewhere there is none. */
  signingKey: { root: { pem: string } | { file: string } | null; folder: string | null } | null;
  /** First part of the name of each tenant's log. */
  origin: string;
  /** Folder that checkpoints are published to. */
  checkpointDir: string;
  /** Milliseconds between two sealings; null leaves sealing to another process. */
  sealInterval: number | null;
  /** Who cosigns checkpoints before they are published; null for nobody. */
  witnesses: WitnessPolicy | null;
}

/** Settings with the database found: given by address, or started. */
export interface ServiceConfig extends Config {
  database: DatabaseAddresses;
  /** Names of the migrations that extensions bring; none when left out. */
  extensionSteps?: readonly string[];
}

export interface DatabaseAddresses {
  /** As `waybill_app`: what requests use. */
  appUrl: string;
  /** As `waybill_owner`: migrations and administration. Absent where a deployment migrates by itself. */
  ownerUrl: string | null;
  /** As `waybill_sealer`: background work on all tenants. */
  sealerUrl: string | null;
}

export const LOG_LEVELS = ['fatal', 'error', 'warn', 'log', 'debug', 'verbose'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export const LOG_FORMATS = ['json', 'text'] as const;
export type LogFormat = (typeof LOG_FORMATS)[number];
