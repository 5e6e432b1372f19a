import { once } from 'node:events'
import { runTool } from '../../../src/kernel/run-tool.ts'
import { situationsOf } from './situations.ts'
import { makeWorld, manyServices, snapshotOf } from './world.ts'

/** Waits for a word, and writes many Services, whose port it is told, until it is killed. */
const port = Number(process.argv[2])
const settings = situationsOf('IPv4')['pods by their addresses']?.settings
if (settings === undefined) throw new Error('no settings')
const { proxier } = await makeWorld({ run: runTool })
const snapshot = snapshotOf(manyServices(2000, port))
console.log('ready')
await once(process.stdin, 'data')
for (const one = proxier(); ; one.forget()) await one.sync(snapshot, settings)
