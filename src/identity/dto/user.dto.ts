import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { ArrayMaxSize, ArrayUnique, IsArray, IsBoolean, IsIn, IsOptional, Matches } from 'class-validator';
import { IsText } from '../../validation/index.js';
import type { User, UserKind } from '../users.repository.js';

const ROLES = {
  type: [String] as [typeof String],
  maxItems: 50,
  example: ['operator'],
  description: 'viewer, operator, admin, auditor, or a role that a workflow or an extension names.',
};

export class CreateUserBody {
  @ApiProperty({
    maxLength: 255,
    example: 'shop-backend',
    description: 'Unique in the tenant; for a person the `sub`.',
  })
  @IsText(1, 255)
  subject!: string;

  @ApiProperty({ enum: ['human', 'service'], description: 'Only a human can also come with a token.' })
  @IsIn(['human', 'service'])
  kind!: 'human' | 'service';

  @ApiProperty({ maxLength: 200, example: 'Shop backend' })
  @IsText(1, 200)
  displayName!: string;

  @ApiProperty(ROLES)
  @IsArray()
  @ArrayMaxSize(50)
  @ArrayUnique()
  @Matches(/^[a-z][a-z0-9_-]{0,62}$/, { each: true })
  roles!: string[];
}

export class PatchUserBody {
  @ApiPropertyOptional({ maxLength: 200 })
  @IsOptional()
  @IsText(1, 200)
  displayName?: string;

  @ApiPropertyOptional({ ...ROLES, description: 'All roles of the user’s API keys; a token brings its own.' })
  @IsOptional()
  @IsArray()
  @ArrayMaxSize(50)
  @ArrayUnique()
  @Matches(/^[a-z][a-z0-9_-]{0,62}$/, { each: true })
  roles?: string[];

  @ApiPropertyOptional({ description: 'A disabled user’s keys and tokens are refused.' })
  @IsOptional()
  @IsBoolean()
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
