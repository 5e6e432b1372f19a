import * as module from 'node:module'
import { setFlagsFromString } from 'node:v8'
import { load, resolve } from './typescript-hooks.mjs'

// For `node --import`: TypeScript, compiled once for all processes of a run. tsx compiles for
// each process anew (in a sandbox its cache is gone), at 0.6 s of processor time.
if ('registerHooks' in module) module.registerHooks({ load, resolve })
else module.register('./typescript-hooks.mjs', import.meta.url)

// Node 20 optimizes functions early, and few of a test live as long as that pays: later, a process
// with tests takes a fifth less of processor time. Newer ones are in no such hurry.
if (process.version.startsWith('v20.')) setFlagsFromString('--interrupt-budget=1000000')
