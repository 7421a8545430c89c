import { ApiProperty } from '@nestjs/swagger';
import { BooleanField, ChoiceField, PatternsField, TextField } from '../../validation/index.js';
import { MAX_DISPLAY_NAME, MAX_ROLES, MAX_SUBJECT, ROLE_NAME } from '../user-bounds.js';
import type { User, UserKind } from '../users.repository.js';

const ROLES = {
  max: MAX_ROLES,
  example: ['operator'],
  description: 'viewer, operator, admin, auditor, or a role that a workflow or an extension names.',
};

export class CreateUserBody {
  @TextField({
    max: MAX_SUBJECT,
    example: 'shop-backend',
    description: 'Unique in the tenant; for a person the `sub`.',
  })
  subject!: string;

  @ChoiceField(['human', 'service'], { description: 'Only a human can also come with a token.' })
  kind!: 'human' | 'service';

  @TextField({ max: MAX_DISPLAY_NAME, example: 'Shop backend' })
  displayName!: string;

  @PatternsField(ROLE_NAME, ROLES)
  roles!: string[];
}

export class PatchUserBody {
  @TextField({ optional: true, max: MAX_DISPLAY_NAME })
  displayName?: string;

  @PatternsField(ROLE_NAME, {
    ...ROLES,
    optional: true,
    description: 'All roles of the user’s API keys; a token brings its own.',
  })
  roles?: string[];

  @BooleanField({ optional: true, description: 'A disabled user’s keys and tokens are refused.' })
  disabled?: boolean;
}

export class UserDto {
  @ApiProperty({ format: 'uuid' })
  id!: string;
  @ApiProperty({ example: 'shop-backend' })
  subject!: string;
  @ApiProperty({ enum: ['human', 'service', 'system'] })
  kind!: UserKind;
  @ApiProperty({ example: 'Shop backend' })
  displayName!: string;
  @ApiProperty({ type: [String], example: ['operator'] })
  roles!: string[];
  @ApiProperty({ format: 'date-time' })
  createdAt!: string;
  @ApiProperty({ type: String, format: 'date-time', nullable: true })
  disabledAt!: string | null;
  @ApiProperty({
    description: 'Whether it was a person whose subject and name are gone; nothing of it changes any more.',
  })
  erased!: boolean;

  static of(user: User): UserDto {
    return Object.assign(new UserDto(), user);
  }
}

export class UserListDto {
  @ApiProperty({ type: [UserDto] })
  data!: UserDto[];
  @ApiProperty({ type: String, nullable: true, description: 'Cursor of the next page; null on the last.' })
  next!: string | null;
}
