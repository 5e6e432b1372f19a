/** Those that ask a program to end. */
export const forwardedSignals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

export type Forwarded = (typeof forwardedSignals)[number]
