import { ApiProperty } from '@nestjs/swagger';
import { PageQuery, TextField, TimestampField, UuidField } from '../../validation/index.js';
import type { ApiKey } from '../api-keys.repository.js';

export class CreateApiKeyBody {
  @UuidField({ description: 'The user whose key it becomes, with that user’s roles.' })
  userId!: string;

  @TextField({ max: 100, example: 'shop, production' })
  name!: string;

  @TimestampField({ optional: true, description: 'From then on it is refused; without it, never.' })
  expiresAt?: string;
}

export class ListApiKeysQuery extends PageQuery {
  @UuidField({ optional: true, description: 'Only the keys of this user.' })
  userId?: string;
}

export class ApiKeyDto {
  @ApiProperty({ format: 'uuid' })
  id!: string;
  @ApiProperty({ format: 'uuid' })
  userId!: string;
  @ApiProperty({ example: 'shop, production' })
  name!: string;
  @ApiProperty({ example: 'wb_1_5f0c9a523a0e', description: 'How the key’s text begins, to tell keys apart.' })
  prefix!: string;
  @ApiProperty({ format: 'date-time' })
  createdAt!: string;
  @ApiProperty({ type: String, format: 'date-time', nullable: true })
  expiresAt!: string | null;
  @ApiProperty({ type: String, format: 'date-time', nullable: true })
  revokedAt!: string | null;
  @ApiProperty({
    type: String,
    format: 'date-time',
    nullable: true,
    description: 'Written every ten seconds, to the millisecond.',
  })
  lastUsedAt!: string | null;

  static of(key: ApiKey): ApiKeyDto {
    return Object.assign(new ApiKeyDto(), key);
  }
}

export class NewApiKeyDto extends ApiKeyDto {
  @ApiProperty({
    type: String,
    nullable: true,
    example: 'wb_1_5f0c9a523a0e_…',
    description:
      'The whole text of the key, to sign in with. Only the first answer has it; null in the answer to a retry.',
  })
  secret!: string | null;
  @ApiProperty({ description: 'Whether an earlier answer showed the secret.' })
  secretShown!: boolean;

  static shownOnce({ secret, ...key }: ApiKey & { secret: string }): NewApiKeyDto {
    return Object.assign(new NewApiKeyDto(), key, { secret, secretShown: false });
  }

  /** The answer to a retry. */
  withoutSecret(): NewApiKeyDto {
    return Object.assign(new NewApiKeyDto(), this, { secret: null, secretShown: true });
  }
}

export class ApiKeyListDto {
  @ApiProperty({ type: [ApiKeyDto] })
  data!: ApiKeyDto[];
  @ApiProperty({ type: String, nullable: true, description: 'Cursor of the next page; null on the last.' })
  next!: string | null;
}
