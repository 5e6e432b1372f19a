import { isOutOfResources } from '../util/usher-error.ts'

/** EACCES: where it is forbidden (a `prohibit` route; a firewall's answer over IPv6). */
const unreachable = new Set([
  'ECONNREFUSED',
  'EACCES',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EHOSTDOWN',
])

/** Whether an errno name, of a UDP flow's socket, says that the flow has to move to another endpoint. */
export const isUnreachable = (code: string): boolean => unreachable.has(code)

/**
 * EADDRINUSE, and EAGAIN of connect(2): every ephemeral port is taken, of which a flow needs
 * one. ENOSPC: epoll watches as much as it may (epoll_ctl(2)).
 */
const shortages = new Set(['EADDRINUSE', 'EAGAIN', 'ENOSPC'])

/** Whether it says that no socket can be had now, wherever the flow would go. */
export const isShortage = (code: string): boolean =>
  shortages.has(code) || isOutOfResources(code)
