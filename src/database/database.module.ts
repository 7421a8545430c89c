import { type DynamicModule, Global, Module } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource } from 'typeorm';
import { AfterCommit } from './after-commit.js';
import { type ConnectionSettings, dataSourceOptions } from './connection.js';
import { DatabaseProbe } from './database-probe.js';
import { RequestTransactions } from './request-transactions.js';
import { RoleCheck } from './role-check.js';
import { SchemaCheck, type SchemaSettings } from './schema-check.js';
import { SystemUsers } from './system-users.js';
import { TransactionRunner } from './transaction-runner.js';

@Global()
@Module({})
export class DatabaseModule {
  static register(settings: ConnectionSettings & { schema: SchemaSettings }): DynamicModule {
    return {
      module: DatabaseModule,
      imports: [
        DiscoveryModule,
        TypeOrmModule.forRoot({
          ...dataSourceOptions(settings),
          autoLoadEntities: true,
          retryAttempts: 5,
          retryDelay: 500,
        }),
      ],
      providers: [
        {
          provide: DatabaseProbe,
          inject: [DataSource],
          useFactory: (source: DataSource) => new DatabaseProbe(source, settings.url),
        },
        AfterCommit,
        TransactionRunner,
        SystemUsers,
        RoleCheck,
        {
          provide: SchemaCheck,
          inject: [DataSource],
          useFactory: (source: DataSource) => new SchemaCheck(source, settings.schema),
        },
        RequestTransactions,
      ],
      exports: [AfterCommit, TransactionRunner, DatabaseProbe, SystemUsers],
    };
  }
}
