/* The commands that ask a running Usher, and the shells' scripts: packed as one file. */
export { completion } from './completion.ts'
export { explain } from './explain.ts'
export { get } from './get.ts'
export { close, drain, pause, resume, undrain, weight } from './orders.ts'
export { status } from './status.ts'
export { tap } from './tap.ts'
export { top } from './top.ts'
export { wait } from './wait.ts'
