const refusal = /not permitted|permission denied|you must be root|\bE(?:ACCES|PERM)\b/i

/** What to do about an error of a tool's or the kernel's that is about rights; '' for any other. */
export const permissionAdvice = (error: string): string =>
  refusal.test(error) ? 'run it as root, or with the capability NET_ADMIN' : ''
