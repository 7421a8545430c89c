/** Whether an error is Node's for a failed system call such as ENOENT. Not by instanceof: Node may be another realm. */
export function isSystemError(error: unknown, code: string): boolean {
  return typeof error === 'object' && error !== null && 'code' in error && error.code === code;
}
