import { Readable } from 'node:stream';
import { Controller, Get, Header, Query, Req, Res, StreamableFile } from '@nestjs/common';
import { ApiBearerAuth, ApiOkResponse, ApiOperation, ApiProduces, ApiTags } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { ApiProblems, invalidParameter, notFound } from '../problems/index.js';
import { NoQuery } from '../validation/index.js';
import { type ContextualRequest, contextOf, TenantTransaction, TransactionRunner, Tx } from '../database/index.js';
import { AUDITORS, READERS, Roles } from '../identity/index.js';
import { NothingSealed } from './audit.errors.js';
import { EventDto } from './dto/event.dto.js';
import {
  CHECKPOINT_EXAMPLE,
  ConsistencyProofDto,
  ConsistencyQuery,
  DEFAULT_FEED_PAGE,
  EventQuery,
  FeedDto,
  FeedQuery,
  InclusionProofDto,
  InclusionQuery,
  RECEIPT_EXAMPLE,
} from './dto/log.dto.js';
import { FeedService } from './feed.service.js';
import { LogReader } from './log-reader.js';
import { ProofsService } from './proofs.service.js';
import { ReceiptsService } from './receipts/receipts.service.js';
import { writeExport } from './verify/write-export.js';

@ApiTags('audit')
@ApiBearerAuth()
@Roles(...AUDITORS)
@Controller('v1/audit')
export class AuditController {
  constructor(
    private readonly feed: FeedService,
    private readonly proofs: ProofsService,
    private readonly receipts: ReceiptsService,
    private readonly log: LogReader,
    private readonly transactions: TransactionRunner,
  ) {}

  @Get('events')
  @Roles(...READERS)
  @ApiOperation({
    operationId: 'listAuditEvents',
    summary: 'The feed: every sealed event of the tenant in the order of the log',
    description:
      'The order has no gaps and never changes, so the last log index is all that a consumer has to remember. With wait it answers as soon as there is something, and with an empty list after that time. Whoever may read orders may follow what happens to them; events of users, keys and policies are for auditors and administrators, and their indices are left out for others. A position beyond the log is an error that names its size. After a restore the log has another origin.',
  })
  @ApiOkResponse({ type: FeedDto })
  @ApiProblems(invalidParameter)
  async events(
    @Query() { after = -1, limit = DEFAULT_FEED_PAGE, wait = 0 }: FeedQuery,
    @Req() request: FastifyRequest & ContextualRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<FeedDto> {
    const gone = new AbortController();
    reply.raw.once('close', () => gone.abort());
    const { events, log } = await this.feed.next(contextOf(request), { after, limit, wait }, gone.signal);
    // A connection that stays open for another request would keep a service that stops from stopping.
    if (this.feed.isStopping) reply.header('connection', 'close');
    const last = events.at(-1)?.index ?? after;
    return {
      data: events.map((event) => EventDto.ofSealed(event)),
      next: last < 0 ? null : last,
      origin: log?.origin ?? null,
      originFrom: log?.originFrom ?? null,
    };
  }

  @Get('checkpoints/latest')
  @Roles(...READERS)
  @Header('content-type', 'text/plain; charset=utf-8')
  @Header('cache-control', 'no-cache')
  @ApiOperation({
    operationId: 'getLatestCheckpoint',
    summary: 'The latest checkpoint, a C2SP signed note',
    description: 'Keep it: it proves later that nothing which it covers was cut off or rewritten.',
  })
  @ApiProduces('text/plain')
  @ApiOkResponse({ schema: { type: 'string', example: CHECKPOINT_EXAMPLE } })
  @ApiProblems(notFound)
  async latestCheckpoint(@Tx() tx: TenantTransaction, @Query() _query: NoQuery): Promise<string> {
    const checkpoint = await this.log.latestCheckpoint(tx);
    if (!checkpoint) throw new NothingSealed();
    return checkpoint.note;
  }

  @Get('proofs/inclusion')
  @Roles(...READERS)
  @ApiOperation({
    operationId: 'getInclusionProof',
    summary: 'Proof that an event is in the log',
    description: 'The event is named by its log index, or by its stream and version.',
  })
  @ApiOkResponse({ type: InclusionProofDto })
  @ApiProblems(notFound, invalidParameter)
  inclusion(@Tx() tx: TenantTransaction, @Query() query: InclusionQuery): Promise<InclusionProofDto> {
    return this.proofs.inclusion(tx, query);
  }

  @Get('proofs/consistency')
  @Roles(...READERS)
  @ApiOperation({
    operationId: 'getConsistencyProof',
    summary: 'Proof that a later checkpoint contains all of an earlier one',
  })
  @ApiOkResponse({ type: ConsistencyProofDto })
  @ApiProblems(notFound, invalidParameter)
  consistency(@Tx() tx: TenantTransaction, @Query() query: ConsistencyQuery): Promise<ConsistencyProofDto> {
    return this.proofs.consistency(tx, query);
  }

  @Get('receipt')
  @Roles(...READERS)
  @Header('content-type', 'text/plain; charset=utf-8')
  @Header('cache-control', 'no-cache')
  @ApiOperation({
    operationId: 'getReceipt',
    summary: 'A receipt for an event: proof for anybody, for ever, without this service',
    description:
      'A C2SP tlog-proof: the event, its place in the log, the proof, and the latest checkpoint with its cosignatures. Keep it beside the order. `waybill audit verify --receipt FILE --vkey KEY` and verifyReceipt of the TypeScript client check it offline. The event is named by its log index, or by its stream and version.',
  })
  @ApiProduces('text/plain')
  @ApiOkResponse({ schema: { type: 'string', example: RECEIPT_EXAMPLE } })
  @ApiProblems(notFound, invalidParameter)
  async receipt(
    @Tx() tx: TenantTransaction,
    @Query() query: EventQuery,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<string> {
    const { index, text } = await this.receipts.issue(tx, query);
    reply.header('content-disposition', `attachment; filename="event-${index}.tlog-proof"`);
    return text;
  }

  @Get('export')
  @Header('cache-control', 'no-store')
  @ApiOperation({
    operationId: 'exportAuditLog',
    summary: 'The whole log up to the latest checkpoint, for offline verification',
    description:
      'One JSON document a line, as docs/audit-format.md says. `waybill audit verify --export FILE --vkey KEY` checks it without a database.',
  })
  @ApiProduces('application/x-ndjson')
  @ApiOkResponse({ schema: { type: 'string' } })
  @ApiProblems(notFound)
  async export(@Query() _query: NoQuery, @Req() request: ContextualRequest): Promise<StreamableFile> {
    const context = contextOf(request);
    const header = await this.transactions.run(context, 'read', (tx) => this.log.exportHeader(tx));
    if (!header) throw new NothingSealed();
    const lines = writeExport({
      header,
      page: (after, limit) => this.transactions.run(context, 'read', (tx) => this.log.page(tx, after, limit)),
    });
    return new StreamableFile(Readable.from(lines, { objectMode: false, highWaterMark: 64 * 1024 }), {
      type: 'application/x-ndjson',
      disposition: `attachment; filename="waybill-audit-${header.size}.ndjson"`,
    });
  }
}
