import * as module from 'node:module'
import { load, resolve } from './typescript-hooks.mjs'

// For `node --import`: TypeScript, compiled once for all processes of a run. tsx compiles for
// each process anew (in a sandbox its cache is gone), at 0.6 s of processor time.
if ('registerHooks' in module) module.registerHooks({ load, resolve })
else module.register('./typescript-hooks.mjs', import.meta.url)
