/*
 * The commands that serve, or look at the node: packed as one file, which help and the commands
 * that ask a running Usher do not load.
 */
export { check } from './check.ts'
export { cleanup } from './cleanup.ts'
export { demo } from './demo.ts'
export { run } from './run.ts'
export { sidecar } from './sidecar.ts'
