import { Module } from '@nestjs/common';
import { EventReader } from './event-reader.js';

@Module({ providers: [EventReader], exports: [EventReader] })
export class AuditModule {}
