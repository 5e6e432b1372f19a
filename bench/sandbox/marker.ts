/**
 * Says in the environment that whoever reads it is to be in a sandbox: its kind, and the
 * mount namespace of the process that started it, which must be another than its own.
 */
export const markerName = 'USHER_BENCH_SANDBOX'
