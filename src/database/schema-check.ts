import { Injectable, type OnModuleInit } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { appliedSteps, compareSteps, requireSteps, StepsMismatch } from './applied-steps.js';
import { postgresError } from './pg-errors.js';

export interface SchemaSettings {
  /** Names of the migrations that extensions bring. */
  extensionSteps: readonly string[];
  /** Whether the database may be that of a newer version. */
  allowsNewer: boolean;
}

/** Refuses to serve with a database that isn't the one of this version. */
@Injectable()
export class SchemaCheck implements OnModuleInit {
  constructor(
    private readonly dataSource: DataSource,
    private readonly settings: SchemaSettings,
  ) {}

  async onModuleInit(): Promise<void> {
    const { extensionSteps, allowsNewer } = this.settings;
    requireSteps(compareSteps(await this.applied(), extensionSteps), allowsNewer);
  }

  private async applied(): Promise<string[]> {
    try {
      return await appliedSteps((text) => this.dataSource.query(text));
    } catch (error) {
      if (postgresError(error)?.code !== '42501') throw error;
      throw new StepsMismatch(
        'The role of DATABASE_URL may not see which migrations the database has. `npx waybill migrate` grants it.',
        { cause: error },
      );
    }
  }
}
